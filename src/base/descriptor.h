// Reads and writes through file descriptors, and finds out when processes started and whether they are dead. Any
// thread.
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

// Moves a descriptor out of the range that programs use themselves: to 512 or above if the limit of descriptors allows
// that. The new descriptor has close-on-exec. Closes `fd`, also on failure. Returns the new descriptor or -errno.
int vg_fd_raise_consume(int fd);
// Reads `size` bytes at `offset` (-1: at the file position), or fewer if the file ends earlier. Returns the number of
// bytes read, or -errno.
ssize_t vg_read_all(int fd, void *data, size_t size, off_t offset);
// Opens a regular file. Checks the type before opening, because opening a device or a FIFO that another user put there
// may block or have effects. `flags`: as for open(), without O_CREAT. Returns the descriptor or -errno; -EINVAL: not a
// regular file; -ELOOP: a symbolic link, with O_NOFOLLOW.
int vg_open_regular(const char *path, int flags);
// Reads a whole file into the buffer and terminates the text with a zero byte. Returns the length or -errno; -EFBIG:
// the file does not fit into the buffer.
ssize_t vg_file_read(const char *path, char *buffer, size_t capacity);
// Writes all bytes at `offset` (-1: at the file position). Returns 0 or -errno.
int vg_write_all(int fd, const void *data, size_t length, off_t offset);
// Replaces a file: writes a temporary file beside it, syncs it, renames it, and syncs the directory. Returns 0 or
// -errno.
int vg_file_write_atomic(const char *path, const void *data, size_t length, mode_t mode);

// Reads when the kernel started a process: field 22 of /proc/PID/stat, in clock ticks since boot, independent of the
// caller's time namespace. Pids are reused: two processes with one pid are the same only if vg_start_time_same() holds.
// Pid 0 is this process, independent of the pid namespace of /proc. Returns 0 or -errno; -ESRCH: no such process.
int vg_process_start_time(pid_t pid, uint64_t *ret_ticks);
// Returns by how many nanoseconds a clock ("monotonic" or "boottime") of a process is ahead of the kernel's. A time
// namespace causes such an offset, as in a process that CRIU restored. Returns 0 if the offset cannot be read. Pid 0 is
// this process.
int64_t vg_clock_offset(pid_t pid, const char *clock);
// Compares two start times. They may differ by one tick, because a process in a time namespace may read a value that is
// one too high or too low.
static inline bool vg_start_time_same(uint64_t ticks, uint64_t other)
{
	return ticks - other + 1 <= 2;
}
// Calls pidfd_open(), for which glibc has a function only since 2.36. Returns the descriptor or -errno.
int vg_pidfd_open(pid_t pid);
// Returns whether all threads of a process have ended and its files are closed. A zombie counts as dead. Returns false
// if this cannot be determined.
bool vg_process_is_dead(pid_t pid, uint64_t start_time);
