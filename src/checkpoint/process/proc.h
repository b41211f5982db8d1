// What the kernel says of a process: lines of /proc/PID/status. Any thread.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct proc_status {
	pid_t group, parent, tracer; // Tgid, PPid, TracerPid
	uid_t user;
	char state; // 'R', 'S', 'D', 'T' (stopped), 't' (by its tracer), 'Z', ...
	char command[16];
};
// 0 or -errno; -ENOENT: no such process.
int proc_status_read(pid_t pid, struct proc_status *ret_status);
// Whether it is a thread of the kernel's, which has no memory, no files, and an owner that means nothing.
bool proc_is_kernel(pid_t pid);
// SIGCONT, if it is stopped. Whether it was.
bool proc_let_go_on(pid_t pid);
