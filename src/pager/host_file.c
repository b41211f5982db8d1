#include "pager/host_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/hash.h"

#define PREFIX "virgate-host."

void pager_file_format(const struct pager_file *file, char ret_name[PAGER_FILE_NAME])
{
	snprintf(ret_name, PAGER_FILE_NAME, PREFIX "%" PRIx32 ".%" PRIu32 ".%" PRIx64 ".%016" PRIx64,
		 (uint32_t)(file->process >> 32), (uint32_t)file->process, file->start_time, file->number);
}

bool pager_file_parse(const char *name, struct pager_file *ret_file)
{
	uint32_t pid_namespace, pid;
	char again[PAGER_FILE_NAME];
	struct pager_file file;

	if (sscanf(name, PREFIX "%" SCNx32 ".%" SCNu32 ".%" SCNx64 ".%" SCNx64, &pid_namespace, &pid, &file.start_time,
		   &file.number) != 4)
		return false;
	file.process = (uint64_t)pid_namespace << 32 | pid;
	pager_file_format(&file, again);
	if (strcmp(name, again) != 0)
		return false;
	*ret_file = file;
	return true;
}

// Returns the pid that the process has in its own pid namespace: the last one in the line NSpid of /proc/PID/status.
// Returns 0 if the file cannot be read.
static uint32_t read_own_pid(const char *directory)
{
	char path[64], text[8192];

	snprintf(path, sizeof path, "%s/status", directory);
	char *line = vg_file_read(path, text, sizeof text) > 0 ? strstr(text, "\nNSpid:\t") : NULL;
	if (!line)
		return 0;
	line[1 + strcspn(line + 1, "\n")] = '\0';
	return (uint32_t)strtoul(strrchr(line, '\t') + 1, NULL, 10);
}

int pager_file_choose(pid_t pid, struct pager_file *ret_file)
{
	char directory[32] = "/proc/self", path[64];
	struct pager_file file = {0};
	struct stat pid_namespace;

	if (pid)
		snprintf(directory, sizeof directory, "/proc/%d", (int)pid);
	snprintf(path, sizeof path, "%s/ns/pid", directory);
	if (stat(path, &pid_namespace) < 0)
		return -errno;
	file.process = pid_namespace.st_ino << 32 | read_own_pid(directory);
	int r = (uint32_t)file.process ? vg_process_start_time(pid, &file.start_time) : -ESRCH;
	while (r == 0 && file.number == 0)
		if (getrandom(&file.number, sizeof file.number, 0) != (ssize_t)sizeof file.number)
			r = -errno;
	if (r == 0)
		*ret_file = file;
	return r;
}

int pager_file_create(void)
{
	int fd = open(PAGER_FILE_DIRECTORY, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : vg_fd_raise_consume(fd);
}

static void format_path(const struct pager_file *file, char ret_path[sizeof PAGER_FILE_DIRECTORY + PAGER_FILE_NAME])
{
	memcpy(ret_path, PAGER_FILE_DIRECTORY "/", sizeof PAGER_FILE_DIRECTORY);
	pager_file_format(file, ret_path + sizeof PAGER_FILE_DIRECTORY);
}

int pager_file_link(int fd, const struct pager_file *file)
{
	char path[sizeof PAGER_FILE_DIRECTORY + PAGER_FILE_NAME], from[32];

	snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
	format_path(file, path);
	return linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

int pager_file_open(const struct pager_file *file)
{
	char path[sizeof PAGER_FILE_DIRECTORY + PAGER_FILE_NAME];
	struct stat info;

	format_path(file, path);
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = fstat(fd, &info) < 0	   ? -errno
		: !S_ISREG(info.st_mode)   ? -EINVAL
		: info.st_uid != geteuid() ? -EPERM
					   : 0;
	if (r == 0)
		return vg_fd_raise_consume(fd);
	close(fd);
	return r;
}

void pager_file_unlink(const struct pager_file *file)
{
	char path[sizeof PAGER_FILE_DIRECTORY + PAGER_FILE_NAME];

	format_path(file, path);
	unlink(path);
}

bool pager_file_is_named(int fd, const struct pager_file *file)
{
	char path[sizeof PAGER_FILE_DIRECTORY + PAGER_FILE_NAME];
	struct stat open_one, named;

	format_path(file, path);
	return fstat(fd, &open_one) == 0 && lstat(path, &named) == 0 && open_one.st_dev == named.st_dev &&
	       open_one.st_ino == named.st_ino && named.st_uid == geteuid();
}

void pager_file_sweep(pid_t replaced)
{
	DIR *directory = opendir(PAGER_FILE_DIRECTORY);
	struct stat pid_namespace;
	struct pager_file file;
	struct dirent *entry;

	if (!directory)
		return;
	if (stat("/proc/self/ns/pid", &pid_namespace) == 0)
		while ((entry = readdir(directory))) {
			if (!pager_file_parse(entry->d_name, &file) ||
			    (uint32_t)(file.process >> 32) != (uint32_t)pid_namespace.st_ino)
				continue;
			pid_t pid = (pid_t)(uint32_t)file.process;
			if (pid == replaced || vg_process_is_dead(pid, file.start_time))
				unlinkat(dirfd(directory), entry->d_name, 0);
		}
	closedir(directory);
}

uint64_t pager_file_place(uid_t sweeper)
{
	struct stat pid_namespace, directory;

	if (stat("/proc/self/ns/pid", &pid_namespace) < 0 || stat(PAGER_FILE_DIRECTORY, &directory) < 0)
		return 0;
	const uint64_t place[] = {pid_namespace.st_ino, directory.st_dev, directory.st_ino, sweeper};
	return vg_hash(place, sizeof place);
}
