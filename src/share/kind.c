#include "share/kind.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core.h"

static const char *name_kind(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "a file";
	case S_IFDIR:
		return "a directory";
	case S_IFSOCK:
		return "a socket";
	case S_IFIFO:
		return "a pipe";
	case S_IFCHR:
		return "a device";
	case S_IFBLK:
		return "a block device";
	default: // an anonymous inode of the kernel: epoll, eventfd, pidfd
		return "no memory";
	}
}

bool share_descriptor_is_memory(int descriptor, char *ret_what, size_t capacity)
{
	char link[40], target[256];
	struct stat given, control;

	if (fstat(descriptor, &given) < 0) {
		snprintf(ret_what, capacity, "not open");
		return false;
	}
	if (core_driver && core_driver->simulated) {
		if (S_ISFIFO(given.st_mode))
			return true;
	} else if (S_ISCHR(given.st_mode) && stat("/dev/nvidiactl", &control) == 0 &&
		   given.st_rdev == control.st_rdev) {
		return true;
	}
	snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
	ssize_t length = readlink(link, target, sizeof target - 1);
	target[length > 0 ? length : 0] = '\0';
	snprintf(ret_what, capacity, "%s (%s)", name_kind(given.st_mode), target);
	return false;
}
