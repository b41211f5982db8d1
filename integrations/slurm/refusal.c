#include "refusal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_path(const char *state_dir, uint32_t job, char ret_path[PATH_MAX])
{
	snprintf(ret_path, PATH_MAX, "%s/refused-%u", state_dir, job);
}

int refusal_write(const char *state_dir, uint32_t job, const char *text)
{
	char path[PATH_MAX];
	size_t length = strlen(text);

	make_path(state_dir, job, path);
	if (mkdir(state_dir, 0755) < 0 && errno != EEXIST)
		return -errno;
	unlink(path);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	fchmod(fd, 0644);
	ssize_t written = write(fd, text, length);
	int error = written < 0 ? -errno : written < (ssize_t)length ? -EIO : 0;
	close(fd);
	return error;
}

bool refusal_read(const char *state_dir, uint32_t job, char *ret_text, size_t capacity)
{
	char path[PATH_MAX];

	make_path(state_dir, job, path);
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t length = read(fd, ret_text, capacity - 1);
	close(fd);
	if (length <= 0)
		return false;
	ret_text[length] = '\0';
	return true;
}

void refusal_remove(const char *state_dir, uint32_t job)
{
	char path[PATH_MAX];

	make_path(state_dir, job, path);
	unlink(path);
}
