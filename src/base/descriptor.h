// File descriptors and processes. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

static inline void vg_close_p(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
#define _cleanup_close_ __attribute__((cleanup(vg_close_p)))

// Moves a descriptor above the range programs expect to own (>= 512 where the limit
// allows), close-on-exec. Takes `fd`, also on failure. Returns the new one or -errno.
int vg_fd_raise_consume(int fd);
// All of `size` bytes, or as many as there are up to the end, from `offset` on; -1: from where the descriptor stands.
// The count, or -errno.
ssize_t vg_read_all(int fd, void *data, size_t size, off_t offset);
// Opens a regular file and nothing else: what lies at `path` is looked at first, so that no device is opened and no FIFO
// waited for, whoever put it there. `flags`: of open(), without O_CREAT. The descriptor or -errno; -EINVAL: it is not a
// regular file; -ELOOP: it is a link, with O_NOFOLLOW.
int vg_open_regular(const char *path, int flags);
// The whole of a small file (terminated), into the caller's buffer. Length, or -errno;
// -EFBIG when it does not fit.
ssize_t vg_file_read(const char *path, char *buffer, size_t capacity);
// All of it, however often that takes, to `offset` on; -1: to where the descriptor stands. 0 or -errno.
int vg_write_all(int fd, const void *data, size_t length, off_t offset);
// Writes to a temporary name beside `path`, fsyncs, renames, fsyncs the folder. 0 or -errno.
int vg_file_write_atomic(const char *path, const void *data, size_t length, mode_t mode);

// When the kernel started the process: field 22 of /proc/PID/stat, in clock ticks since
// boot, whatever time namespace this process is in. A pid names the same process only while this agrees, as
// vg_start_time_same() has it. Of pid 0: this process, whatever pid namespace /proc was mounted in.
// 0 or -errno (-ESRCH: none).
int vg_process_start_time(pid_t pid, uint64_t *ret_ticks);
// Returns how much later than the kernel's own a clock of the process's time namespace is, in nanoseconds: "monotonic"
// or "boottime". pid 0: this process. A process that CRIU restored has such a namespace. 0 if it cannot be read.
int64_t vg_clock_offset(pid_t pid, const char *clock);
// A process in a time namespace of its own may be a tick off.
static inline bool vg_start_time_same(uint64_t ticks, uint64_t other)
{
	return ticks - other + 1 <= 2;
}
// pidfd_open without glibc 2.36. The descriptor or -errno.
int vg_pidfd_open(pid_t pid);
// True once every thread of {pid, start} has ended and its files are closed (a zombie
// counts as dead). False when that cannot be told.
bool vg_process_is_dead(pid_t pid, uint64_t start_time);
