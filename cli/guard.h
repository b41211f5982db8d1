// Starts a guard process for a dump. If the dumping process is killed before the image is complete, the guard resumes
// the dumped processes. One thread, before the driver is loaded.
#pragma once
#include <sys/types.h>

#include "options.h"

enum { GUARD_MOST = 1024 }; // maximum number of processes whose trees are dumped

struct guard {
	pid_t pid;
	int end; // write end of a pipe to the guard. If it closes before guard_stop(), the dumping process was killed.
};

struct guarded {
	const struct arguments *arguments; // the guard reads the settings and chooses the driver by these arguments
	const pid_t *pids;		   // the roots of the dumped trees
	size_t count;
	const char *dir; // directory of the image
	bool leave_running;
	// Only for a migration: the temporary directory with the image; "" if the user named a directory, which the
	// guard does not remove. NULL: the guard is not for a migration.
	const char *scratch;
	bool is_suspension; // the dump is a `virgate suspend --deep`, which has no image
};
// Starts a guard: a child process that lets the dumped processes run again if this process is killed. Returns 0, or the
// verb's exit code after a message.
int guard_start(const struct guarded *guarded, struct guard *ret_guard);
// Starts a guard for the processes of a vGPU, which the daemon lists. If `vgpu` is NULL, starts one for the process
// `pid`. `how` has the other members of struct guarded.
int guard_start_for_target(const struct arguments *arguments, const char *vgpu, pid_t pid, const struct guarded *how,
			   struct guard *ret_guard);
// The steps of a migration, as the dumping process reports them to the guard.
enum guard_step {
	GUARD_IMAGE_COMPLETE = 's', // the image is complete; the guard removes it if the processes continue here
	GUARD_ENDING = 'e',	    // the processes end here; the receiver must not start them yet
	GUARD_HANDING_OVER = 'h',   // the receiver may start the processes
};
void guard_report_step(const struct guard *guard, enum guard_step step);
// Ends the guard and reaps it, after the dump has succeeded or failed.
void guard_stop(struct guard *guard);
