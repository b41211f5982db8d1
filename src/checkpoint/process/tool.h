// Other programs, run to their end: found in PATH, watched, and killed when their time is up. Any thread.
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// The file that `variable` names (NULL: none does), or `name` in PATH. 0, -ENOENT, or -EACCES: there, but not to be
// run.
int tool_find(const char *variable, const char *name, char ret_path[PATH_MAX]);

struct tool_start {
	const char *const *argv;	// argv[0] is the file to run
	const char *const *environment; // NULL: this process's
	const int *keep;		// descriptors that it has open, under the same numbers
	size_t keep_count;
	int fds[3];	 // what it has as 0, 1 and 2; -1: /dev/null
	bool in_session; // in ours, for the sake of its terminal, and in a process group of its own
};
// In a session of its own, so that what it starts goes with it, and a terminal's signals do not reach it; with no
// signal held back. In our session, a process that CRIU has made and stopped would be hung up as soon as CRIU ends,
// unless it becomes our child then: its group would have nobody left to wake it. 0 or -errno.
int tool_start(const struct tool_start *start, pid_t *ret_pid);

struct tool_run {
	const char *const *argv;	// argv[0] is the file to run
	const char *const *environment; // NULL: this process's
	const int *keep;		// descriptors that the program has open, under the same numbers
	size_t keep_count;
	unsigned timeout_ms; // 0: as long as it takes
	char *output; // what it writes to stdout and stderr, cut at `capacity` - 1 bytes and terminated; NULL: thrown
		      // away
	size_t capacity;
	bool terminal; // ours is its 0: it is in our session then
	// Called about ten times a second meanwhile; false: the program is to be killed. NULL: nobody is.
	bool (*tick)(void *user);
	void *user;
};
// Its exit status, or 128 + the signal that ended it; -ETIMEDOUT: it was killed, -ECANCELED: as `tick` wished; another
// -errno: it never ran.
int tool_run(const struct tool_run *run);
