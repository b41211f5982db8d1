// Reads what the kernel reports about a process in /proc/PID. Any thread.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct proc_status {
	pid_t group, parent, tracer; // Tgid, PPid, TracerPid
	uid_t user;
	char state; // 'R', 'S', 'D', 'T' (stopped), 't' (stopped by its tracer), 'Z', ...
	char command[16];
};
// Reads /proc/PID/status. Returns 0 or -errno; -ENOENT: no such process.
int proc_status_read(pid_t pid, struct proc_status *ret_status);
// Returns whether the process is a kernel thread, which has neither memory nor files of its own.
bool proc_is_kernel(pid_t pid);
// Sends SIGCONT to a stopped process. Returns whether it was stopped.
bool proc_let_go_on(pid_t pid);
