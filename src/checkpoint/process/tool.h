// Runs other programs to their end: finds them in PATH, watches them, and kills them after a timeout. Any thread.
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Finds the file that the environment variable `variable` (may be NULL) names, or `name` in PATH. Returns 0, -ENOENT,
// or -EACCES if the file is not executable.
int tool_find(const char *variable, const char *name, char ret_path[PATH_MAX]);

struct tool_start {
	const char *const *argv;	// argv[0] is the file to run
	const char *const *environment; // NULL: this process's
	const int *keep;		// descriptors that stay open in it, with the same numbers
	size_t keep_count;
	int fds[3];	 // its descriptors 0, 1 and 2; -1: /dev/null
	bool in_session; // in our session, because it needs our terminal, and in its own process group
};
// Starts a program in a session of its own, with no signal blocked: its children stay with it, and signals of a
// terminal do not reach it. With `in_session`, a stopped process that CRIU has made gets SIGHUP when CRIU exits, unless
// it becomes our child: the kernel hangs up stopped process groups that are orphaned. Returns 0 or -errno.
int tool_start(const struct tool_start *start, pid_t *ret_pid);

struct tool_run {
	const char *const *argv;	// argv[0] is the file to run
	const char *const *environment; // NULL: this process's
	const int *keep;		// descriptors that stay open in it, with the same numbers
	size_t keep_count;
	unsigned timeout_ms; // 0: none
	// receives standard output and standard error, at most `capacity` - 1 bytes, and a 0; NULL: discard them
	char *output;
	size_t capacity;
	bool terminal; // it reads our terminal and is in our session
	// Called about ten times a second; returns false to kill the program. May be NULL.
	bool (*tick)(void *user);
	void *user;
};
// Returns the exit status, or 128 + the number of the signal that ended it. -ETIMEDOUT: killed after the timeout;
// -ECANCELED: killed because `tick` returned false; other -errno: it did not start.
int tool_run(const struct tool_run *run);
