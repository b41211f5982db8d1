// What the kernel says of a process: lines of /proc/PID/status. Any thread.
#pragma once
#include <sys/types.h>

struct proc_status {
	pid_t group, parent, tracer; // Tgid, PPid, TracerPid
	uid_t user;
	char state; // 'R', 'S', 'D', 'T' (stopped), 't' (by its tracer), 'Z', ...
	char command[16];
};
// 0 or -errno; -ENOENT: no such process.
int proc_status_read(pid_t pid, struct proc_status *ret_status);
