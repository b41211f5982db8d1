// Child processes: one that is started, or several that are adopted. Signals are forwarded to them, and they are
// reaped. A started child stays in this process group, so it gets the terminal's signals once, from the terminal. One
// thread.
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct child {
	pid_t pid;
	bool has_own_group; // the terminal does not signal it
	bool ended;
	int status;  // of waitpid()
	char *image; // where it was dumped; "": migrated; NULL: no notice of a dump
};

struct children {
	struct child *list;
	size_t count;
	int notices; // a descriptor (checkpoint/notice.h); negative: no notices
	sigset_t inherited_mask;
	struct sigaction inherited_chld;
};

// Finds a program as execvp(3) does. Returns 0, or an errno: ENOENT (not found), EACCES (found, but not executable).
int child_find_program(const char *command, char *ret_path);

// Starts `path` with `argv` and `environment`. Returns 0, or -errno of fork or exec.
int child_start(struct children *children, const char *path, char **argv, char **environment);

// Adopts processes that are children already, through PR_SET_CHILD_SUBREAPER. Their order decides whose exit status
// counts. Blocks the signals that child_wait() forwards. Returns 0, -ENOMEM, or -ECHILD: *ret_not_child is no child.
int child_adopt(struct children *children, const pid_t *pids, size_t count, pid_t *ret_not_child);

// Forwards signals to all children and reaps them until all have ended. Calls `idle(user)` at growing intervals: after
// 20 ms, 40 ms, … up to every 10 s.
void child_wait(struct children *children, void (*idle)(void *user), void *user);

// Returns the code that a shell would show, after all have ended: the exit status, or 128 + the signal. Of several
// children the first that did not end with 0 counts, and a message names it. A child that a dump ended counts as
// EXIT_DUMPED, and a message says how to restore it. Frees the list.
int child_exit_code(struct children *children);
