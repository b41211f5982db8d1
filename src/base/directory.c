#include "base/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Checks the open descriptor, not the path, because another user may replace the directory at the path meanwhile.
static int check_owner(int fd, const char *path, char *problem, size_t capacity)
{
	struct stat status;

	if (fstat(fd, &status) < 0) {
		int error = errno;
		snprintf(problem, capacity, "%.200s: %s", path, strerror(error));
		return -error;
	}
	if (status.st_uid != geteuid())
		snprintf(problem, capacity, "%.200s belongs to another user (%u)", path, (unsigned)status.st_uid);
	else if (status.st_mode & 022)
		snprintf(problem, capacity, "%.200s is not a directory that only you may write (mode %04o)", path,
			 (unsigned)status.st_mode & 07777);
	else
		return 0;
	return -EPERM;
}

int vg_directory_open_own(const char *path, char *problem, size_t capacity)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST) {
		int error = errno;
		snprintf(problem, capacity, "the directory %.200s cannot be made: %s", path, strerror(error));
		return -error;
	}
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		int error = errno;
		bool is_not_directory = error == ENOTDIR || error == ELOOP;
		snprintf(problem, capacity, "%.200s %s", path,
			 is_not_directory  ? "is not a directory"
			 : error == EACCES ? "belongs to another user"
					   : strerror(error));
		return is_not_directory || error == EACCES ? -EPERM : -error;
	}
	int r = check_owner(fd, path, problem, capacity);
	if (r == 0)
		return fd;
	close(fd);
	return r;
}
