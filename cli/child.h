// Starts one child process, or adopts several, forwards signals to the children, and reaps them. A started child stays
// in this process group, so the terminal sends its signals to the child directly. One thread.
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct child {
	pid_t pid;
	bool has_own_group; // the child is in another process group, which the terminal does not signal
	bool ended;
	int status;  // exit status, as waitpid() returns it
	char *image; // directory of the image that the child was dumped to; "": migrated; NULL: no notice of a dump
};

struct children {
	struct child *list;
	size_t count;
	int notices; // descriptor that receives notices of dumps (checkpoint/notice.h); negative: none
	sigset_t inherited_mask;
	struct sigaction inherited_chld;
};

// Finds a program as execvp(3) does. Returns 0, or an errno: ENOENT (not found), EACCES (found, but not executable).
int child_find_program(const char *command, char *ret_path);

// Starts `path` with `argv` and `environment`. Returns 0, or -errno of fork or exec.
int child_start(struct children *children, const char *path, char **argv, char **environment);

// Adopts processes that are children already, because this process is a subreaper (PR_SET_CHILD_SUBREAPER). Of several
// failures, child_exit_code() returns the first in the order of `pids`. Blocks the signals that child_wait() forwards.
// Returns 0, -ENOMEM, or -ECHILD: *ret_not_child is not a child.
int child_adopt(struct children *children, const pid_t *pids, size_t count, pid_t *ret_not_child);

// Forwards signals to all children and reaps them until all have ended. Calls `idle(user)` at growing intervals: after
// 20 ms, 40 ms, … up to every 10 s.
void child_wait(struct children *children, void (*idle)(void *user), void *user);

// Returns the exit code for this process after all children have ended, as a shell would: the exit status, or 128 + the
// signal. Of several children, the first that failed counts, and a message names it. If a dump ended a child, the code
// is EXIT_DUMPED, and a message says how to restore the child. Frees the list in `children`.
int child_exit_code(struct children *children);
