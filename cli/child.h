// Child processes: one that is started, or several that are adopted; signalled, awaited. One that was started stays in our
// process group, so that the terminal's own signals reach it once, from the terminal. One thread.
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct child {
	pid_t pid;
	bool apart;  // in another process group: the terminal's signals come to us alone
	bool ended;
	int status;  // as waitpid has it, once it has ended
	char *image; // where somebody said that it was written down, "" for elsewhere; NULL: nobody did
};

struct children {
	struct child *list;
	size_t count;
	int notices; // checkpoint/notice.h; negative: nobody is heard
	sigset_t inherited_mask;
	struct sigaction inherited_chld;
};

// Where execvp(3) would find `command`. 0, or the errno that ends the search: ENOENT (nowhere),
// EACCES (found, but not to be executed).
int child_find(const char *command, char *ret_path);

// Starts `path` with `argv` and `environment`. 0, or -errno of fork or exec.
int child_start(struct children *children, const char *path, char **argv, char **environment);

// For those that are our children already, through PR_SET_CHILD_SUBREAPER: all of them at once, in the order in which
// their ends count. Signals of ours are held back from here on. 0, -ENOMEM, or -ECHILD: *ret_stranger is none.
int child_adopt(struct children *children, const pid_t *pids, size_t count, pid_t *ret_stranger);

// Passes signals on, to all, until all have ended; calls `idle(user)` at growing intervals: after
// 20 ms, 40 ms, … up to every 10 s. Others that end as our children are buried.
void child_wait(struct children *children, void (*idle)(void *user), void *user);

// When all have ended: what a shell would show, the exit status, or 128 + the signal; of several the first one's that did
// not end with 0, which is said on stderr. Those that a dump has ended are not lost: that is said, with the way
// back, and their code is EXIT_WRITTEN_DOWN. Frees what was held.
int child_exit_code(struct children *children);
