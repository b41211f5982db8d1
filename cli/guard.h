// A process that watches over a dump: when who dumps is killed before the image stands, it lets the processes run on.
// It does nothing else. One thread, before the driver is loaded.
#pragma once
#include <sys/types.h>

#include "options.h"

enum { GUARD_MOST = 1024 }; // roots

struct guard {
	pid_t pid;
	int end; // of a pipe: closed without a word, it tells of a death
};

struct guarded {
	const struct arguments *arguments; // for the settings, and the driver
	const pid_t *pids;		   // the roots of what is dumped
	size_t count;
	const char *dir; // the image
	bool leave_running;
	const char *scratch; // a migration's: its image is of no use as long as the processes are here, and lies in
			     // this folder, or "": where it was told to lie; NULL: no migration
	bool is_suspension;  // of `virgate suspend --deep`: there is no image
};
// 0, or the verb's exit code after words on stderr.
int guard_start(const struct guarded *guarded, struct guard *ret_guard);
// The same for the processes of a vGPU, or, if that is NULL, for one process; the daemon is asked for those. `how` has
// the rest.
int guard_start_for(const struct arguments *arguments, const char *vgpu, pid_t pid, const struct guarded *how,
		    struct guard *ret_guard);
// How far a migration has come.
enum guard_step {
	GUARD_STANDS = 's', // the image does, and is to be removed if they run on
	GUARD_ENDING = 'e', // the processes end here, and the other side was not told yet
	GUARD_HANDED = 'h', // it is being told
};
void guard_tell(const struct guard *guard, enum guard_step step);
// The dump has ended, however. The guard is gone then.
void guard_end(struct guard *guard);
