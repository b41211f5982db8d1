#include "checkpoint/process/hold.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/process/refusal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { PAUSE_US = 20000 };

// Locks the file /proc/PID/environ of the process. The kernel removes this file with the process, and a later process
// with the same pid has another file. Only a process that may read the target's environment can open the file. So no
// other user can block a dump.
static enum vg_status lock_environment(const struct tree_process *process, uint64_t deadline, int *ret_hold)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/environ", (int)process->pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	*ret_hold = -1;
	if (fd < 0 && errno == ESRCH)
		return VG_OK; // the process has ended, so no lock is needed
	if (fd < 0)
		return vg_fail(errno == ENOENT ? VG_NOT_FOUND : VG_DENIED, errno,
			       "process %d (%s) cannot be looked into: %s%s", (int)process->pid, process->command,
			       strerror(errno),
			       errno == EACCES || errno == EPERM
				       ? ": that takes CAP_SYS_PTRACE, and no container or sandbox "
					 "that forbids it: try from outside of it"
				       : "");
	fd = vg_fd_raise_consume(fd);
	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (vg_clock_monotonic_ns() < deadline) {
			usleep(PAUSE_US);
			continue;
		}
		close(fd);
		return refuse(
			REFUSE_IN_USE, 0,
			"process %d (%s) is being dumped, restored or brought back by somebody else, or by CRIU for "
			"a dump that was killed: wait for that to end",
			(int)process->pid, process->command);
	}
	if (fd < 0)
		return vg_fail(VG_SYSTEM, -fd, "%s: %s", path, strerror(-fd));
	*ret_hold = fd;
	return VG_OK;
}

enum vg_status hold_tree(struct tree *tree, unsigned timeout_ms)
{
	uint64_t deadline = vg_clock_monotonic_ns() + timeout_ms * UINT64_C(1000000);

	tree->holds = calloc(tree->count, sizeof *tree->holds);
	if (!tree->holds)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu processes", tree->count);
	for (size_t i = 0; i < tree->count; i++) {
		int *next = &tree->holds[tree->hold_count];
		enum vg_status status = lock_environment(&tree->processes[i], deadline, next);
		if (status)
			return status;
		tree->hold_count += *next >= 0;
	}
	return VG_OK;
}
