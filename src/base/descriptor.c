#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { HIGH_DESCRIPTOR = 512 };

int vg_fd_raise_consume(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR);

	if (high < 0) // the limit of descriptors is low: only avoid standard input, output and error
		high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	int error = errno;
	close(fd);
	return high < 0 ? -error : high;
}

ssize_t vg_read_all(int fd, void *data_, size_t size, off_t offset)
{
	char *data = data_;
	size_t length = 0;

	while (length < size) {
		ssize_t got = offset < 0 ? read(fd, data + length, size - length)
					 : pread(fd, data + length, size - length, offset + (off_t)length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		length += (size_t)got;
	}
	return (ssize_t)length;
}

int vg_open_regular(const char *path, int flags)
{
	_cleanup_close_ int there = open(path, O_PATH | O_CLOEXEC | (flags & O_NOFOLLOW));
	char link[32];
	struct stat info;

	if (there < 0 || fstat(there, &info) < 0)
		return -errno;
	if (!S_ISREG(info.st_mode))
		return S_ISLNK(info.st_mode) ? -ELOOP : -EINVAL;
	snprintf(link, sizeof link, "/proc/self/fd/%d", there);
	// O_NONBLOCK: otherwise open() waits until the holder of a file lease (F_SETLEASE) gives it up.
	int fd = open(link, (flags & ~O_NOFOLLOW) | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

ssize_t vg_file_read(const char *path, char *buffer, size_t capacity)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ssize_t length = vg_read_all(fd, buffer, capacity, -1); // not pread(), because the file may be a pipe
	if (length < 0)
		return length;
	if ((size_t)length == capacity)
		return -EFBIG;
	buffer[length] = '\0';
	return length;
}

int vg_write_all(int fd, const void *data_, size_t length, off_t offset)
{
	const char *data = data_;
	size_t done = 0;

	while (done < length) {
		ssize_t put = offset < 0 ? write(fd, data + done, length - done)
					 : pwrite(fd, data + done, length - done, offset + (off_t)done);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return -errno;
		done += (size_t)put;
	}
	return 0;
}

static int sync_directory_of(const char *path)
{
	char directory[PATH_MAX];
	const char *slash = strrchr(path, '/');

	snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
	_cleanup_close_ int fd = open(*directory ? directory : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fsync(fd) < 0 && errno != EINVAL ? -errno : 0;
}

int vg_file_write_atomic(const char *path, const void *data, size_t length, mode_t mode)
{
	char temporary[PATH_MAX];

	if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary)
		return -ENAMETOOLONG;
	_cleanup_close_ int fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = vg_write_all(fd, data, length, -1);
	if (r == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0 || rename(temporary, path) < 0))
		r = -errno;
	if (r < 0) {
		unlink(temporary);
		return r;
	}
	return sync_directory_of(path);
}

int64_t vg_clock_offset(pid_t pid, const char *clock)
{
	long long seconds, nanoseconds;
	char text[256], path[40];

	snprintf(path, sizeof path, "/proc/%d/timens_offsets", (int)pid);
	if (vg_file_read(pid ? path : "/proc/self/timens_offsets", text, sizeof text) < 0)
		return 0;
	const char *line = strstr(text, clock);
	if (!line || sscanf(line + strlen(clock), " %lld %lld", &seconds, &nanoseconds) != 2)
		return 0;
	return seconds * 1000000000 + nanoseconds;
}

int vg_process_start_time(pid_t pid, uint64_t *ret_ticks)
{
	char path[64], text[1024];
	unsigned long long ticks;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	ssize_t length = vg_file_read(pid ? path : "/proc/self/stat", text, sizeof text);
	if (length < 0)
		return length == -ENOENT ? -ESRCH : (int)length;
	// Search the last parenthesis: a process name may contain any character, even ") ".
	char *end = strrchr(text, ')');
	if (!end || sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
			   &ticks) != 1)
		return -EIO;
	int64_t offset = vg_clock_offset(0, "boottime"), tick = 1000000000 / sysconf(_SC_CLK_TCK);
	*ret_ticks = offset ? (uint64_t)(((int64_t)ticks * tick - offset) / tick) : ticks;
	return 0;
}

int vg_pidfd_open(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

bool vg_process_is_dead(pid_t pid, uint64_t start_time)
{
	uint64_t now;
	_cleanup_close_ int fd = vg_pidfd_open(pid);

	if (fd < 0)
		return fd == -ESRCH;
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	if (poll(&poll_fd, 1, 0) == 1)
		return true;
	int r = vg_process_start_time(pid, &now);
	return r == -ESRCH || (r == 0 && !vg_start_time_same(now, start_time));
}
