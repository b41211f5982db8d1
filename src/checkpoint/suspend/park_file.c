// The files with the device memory of parked processes: finds and opens them for a dump, and makes them for a restore.
#include "base/descriptor.h"
#include "base/size.h"
#include "base/status.h"
#include "checkpoint/process/proc.h"
#include "checkpoint/process/refusal.h"
#include "checkpoint/suspend/park.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

// Opens the directory for pagers' files as the process sees it. The process may be in a container, and links there must
// not lead out of the container. Returns the descriptor or -errno.
static int open_directory(pid_t pid)
{
	const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
	char path[32];

	snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
	_cleanup_close_ int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	int fd = (int)syscall(SYS_openat2, root, PAGER_FILE_DIRECTORY, &how, sizeof how);
	return fd < 0 ? -errno : fd;
}

static enum vg_status add_parked(struct parking *parking, const struct parked *parked)
{
	struct parked *grown = realloc(parking->list, (parking->count + 1) * sizeof *grown);

	if (!grown)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for another process");
	parking->list = grown;
	grown[parking->count++] = *parked;
	parking->bytes += parked->bytes;
	return VG_OK;
}

enum vg_status parking_find_file(pid_t pid, const struct pager_file *file, bool knows_window, struct parking *parking)
{
	struct parked parked = {.pid = pid, .knows_window = knows_window};
	struct stat info;

	if (!file->number)
		return VG_OK; // the process has no memory in a file
	pager_file_format(file, parked.name);
	int r = vg_process_start_time(pid, &parked.start_time);
	parked.directory = r ? r : open_directory(pid);
	if (parked.directory >= 0 && fstatat(parked.directory, parked.name, &info, AT_SYMLINK_NOFOLLOW) < 0) {
		r = -errno;
		close(parked.directory);
		parked.directory = r;
	}
	if (parked.directory < 0)
		return vg_fail(VG_SYSTEM, -parked.directory, "%s/%s of process %d: %s", PAGER_FILE_DIRECTORY,
			       parked.name, (int)pid, strerror(-parked.directory));
	parked.bytes = (uint64_t)info.st_size;
	enum vg_status status = add_parked(parking, &parked);
	if (status)
		close(parked.directory);
	return status;
}

// Opens the file that a process has named. Does not trust the name: the process may be hostile, and the caller may be
// root.
static int open_source(const struct parked *parked)
{
	struct proc_status process;
	struct stat info;

	int fd = openat(parked->directory, parked->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = fstat(fd, &info) < 0 ? -errno : proc_status_read(parked->pid, &process);
	if (r == 0 && (!S_ISREG(info.st_mode) || (uint64_t)info.st_size != parked->bytes ||
		       parked->bytes % DEVICE_BLOCK || info.st_uid != process.user))
		r = -EINVAL;
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

enum vg_status parking_open(const struct parking *parking, struct device_source **ret_sources)
{
	struct device_source *sources = calloc(parking->count + 1, sizeof *sources);

	if (!sources)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu processes", parking->count);
	for (size_t i = 0; i < parking->count; i++) {
		const struct parked *parked = &parking->list[i];
		sources[i] = (struct device_source){parked->pid, open_source(parked), parked->bytes};
		if (sources[i].fd >= 0)
			continue;
		int r = sources[i].fd;
		while (i-- > 0)
			close(sources[i].fd);
		free(sources);
		return vg_fail(r == -EINVAL ? VG_INTEGRITY : VG_SYSTEM, -r, "%s/%s of process %d: %s",
			       PAGER_FILE_DIRECTORY, parked->name, (int)parked->pid,
			       r == -EINVAL ? "it is no file of that process's host memory" : strerror(-r));
	}
	*ret_sources = sources;
	return VG_OK;
}

static void free_list(struct parking *parking)
{
	for (size_t i = 0; i < parking->count; i++)
		close(parking->list[i].directory);
	free(parking->list);
	*parking = (struct parking){0};
}

void parking_finish(struct parking *parking)
{
	for (size_t i = 0; i < parking->count; i++)
		if (vg_process_is_dead(parking->list[i].pid, parking->list[i].start_time))
			unlinkat(parking->list[i].directory, parking->list[i].name, 0);
	free_list(parking);
}

// ---- a restore -----------------------------------------------------------------------------------------

enum vg_status parking_check_room(uint64_t bytes)
{
	char text[2][VG_SIZE_TEXT];
	struct statvfs info;

	if (bytes == 0)
		return VG_OK;
	pager_file_sweep(0);
	if (statvfs(PAGER_FILE_DIRECTORY, &info) < 0)
		return VG_OK; // skip the check: the processes may see another file system at this path
	uint64_t have = (uint64_t)info.f_bavail * info.f_frsize;
	if (bytes <= have)
		return VG_OK;
	enum vg_status status = refuse(REFUSE_HOST_MEMORY, 0,
				       "the restore needs %s in " PAGER_FILE_DIRECTORY
				       " for device memory, which has %s free: free some, or enlarge it "
				       "(mount -o remount,size=…)",
				       vg_size_format(bytes, text[0]), vg_size_format(have, text[1]));
	vg_fail_amounts(bytes, have);
	return status;
}

// Changes the file's owner to the user of the process, because the process opens the file itself.
static int give_to(int fd, pid_t pid)
{
	struct proc_status process;
	int r = geteuid() == 0 ? proc_status_read(pid, &process) : 0;

	return r == 0 && geteuid() == 0 && fchown(fd, process.user, (gid_t)-1) < 0 ? -errno : r;
}

enum vg_status parking_make(struct parking *parking, pid_t pid, int *ret_fd, struct pager_file *ret_file)
{
	struct parked parked = {.pid = pid, .directory = -1};
	int fd = -1, r = pager_file_choose(pid, ret_file);

	if (r == 0)
		r = vg_process_start_time(pid, &parked.start_time);
	if (r == 0) {
		pager_file_format(ret_file, parked.name);
		parked.directory = open_directory(pid);
		r = parked.directory < 0 ? parked.directory : 0;
	}
	if (r == 0) {
		fd = openat(parked.directory, parked.name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		r = fd < 0 ? -errno : give_to(fd, pid);
	}
	enum vg_status status = r ? vg_fail(VG_SYSTEM, -r, "%s/%s for process %d: %s", PAGER_FILE_DIRECTORY,
					    parked.name, (int)pid, strerror(-r))
				  : add_parked(parking, &parked);
	if (status == VG_OK) {
		*ret_fd = fd;
		return VG_OK;
	}
	if (fd >= 0) {
		unlinkat(parked.directory, parked.name, 0);
		close(fd);
	}
	if (parked.directory >= 0)
		close(parked.directory);
	return status;
}

bool parking_adopt(struct parking *parking, pid_t pid, int fd, struct pager_file *ret_file)
{
	struct parked parked = {.pid = pid, .directory = -1};
	bool is_linked = false;
	char from[32];

	snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
	if (pager_file_choose(pid, ret_file) || vg_process_start_time(pid, &parked.start_time))
		return false;
	pager_file_format(ret_file, parked.name);
	parked.directory = open_directory(pid);
	// Give the file a name in a directory of the process. This fails if the process is in a container in which that
	// directory is on another file system.
	if (parked.directory >= 0 && give_to(fd, pid) == 0)
		is_linked = linkat(AT_FDCWD, from, parked.directory, parked.name, AT_SYMLINK_FOLLOW) == 0;
	if (is_linked && add_parked(parking, &parked) == VG_OK)
		return true;
	if (is_linked)
		unlinkat(parked.directory, parked.name, 0);
	if (parked.directory >= 0)
		close(parked.directory);
	return false;
}

void parking_remove_first(struct parking *parking, pid_t pid)
{
	size_t i = 0;

	while (i < parking->count && parking->list[i].pid != pid)
		i++;
	if (i == parking->count)
		return;
	unlinkat(parking->list[i].directory, parking->list[i].name, 0);
	close(parking->list[i].directory);
	parking->bytes -= parking->list[i].bytes;
	parking->count--;
	memmove(&parking->list[i], &parking->list[i + 1], (parking->count - i) * sizeof *parking->list);
}

void parking_remove(struct parking *parking)
{
	for (size_t i = 0; i < parking->count; i++)
		unlinkat(parking->list[i].directory, parking->list[i].name, 0);
	free_list(parking);
}
