// Runs other programs until they exit: finds them in PATH, reads their output, and kills them after a timeout. Any
// thread.
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Finds a program: the file that the environment variable `variable` names, or else `name` in PATH. `variable` may be
// NULL. Returns 0, -ENOENT, or -EACCES if the file is not executable.
int tool_find(const char *variable, const char *name, char ret_path[PATH_MAX]);

struct tool_start {
	const char *const *argv;	// argv[0] is the file to run
	const char *const *environment; // NULL: the environment of this process
	const int *keep;		// descriptors that stay open in the program, with the same numbers
	size_t keep_count;
	int fds[3]; // the program's descriptors 0, 1 and 2; -1: /dev/null
	// True: the program stays in the session of this process, to use its terminal, but in a new process group.
	bool in_session;
};
// Starts a program, with no signal blocked. Without `in_session`, the program and its children are in a new session, to
// which the terminal sends no signals. With `in_session`, processes that CRIU restores must become children of this
// process. Otherwise CRIU's exit orphans their process group, and the kernel sends SIGHUP to them because they are
// stopped. Returns 0 or -errno.
int tool_start(const struct tool_start *start, pid_t *ret_pid);

struct tool_run {
	const char *const *argv;	// argv[0] is the file to run
	const char *const *environment; // NULL: the environment of this process
	const int *keep;		// descriptors that stay open in the program, with the same numbers
	size_t keep_count;
	unsigned timeout_ms; // 0: no timeout
	// Receives standard output and standard error, at most `capacity` - 1 bytes, and a terminating 0. NULL:
	// discards them.
	char *output;
	size_t capacity;
	bool terminal; // true: the program stays in the session of this process, and uses its terminal
	// Called about ten times a second; returns false to kill the program. May be NULL.
	bool (*tick)(void *user);
	void *user;
};
// Runs the program until it exits. Returns its exit status, or 128 + the number of the signal that killed it.
// -ETIMEDOUT: killed after the timeout; -ECANCELED: killed because `tick` returned false; another -errno: the program
// was not started.
int tool_run(const struct tool_run *run);
