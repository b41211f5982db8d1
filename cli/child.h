// One child process: started or adopted, signalled, awaited. One that was started stays in our process group, so that
// the terminal's own signals reach it once, from the terminal. One thread.
#pragma once
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct child {
	pid_t pid;
	bool apart; // in another process group: the terminal's signals come to us alone
	int notices; // checkpoint/notice.h; negative: nobody is heard
	sigset_t inherited_mask;
	struct sigaction inherited_chld;
};

// Where execvp(3) would find `command`. 0, or the errno that ends the search: ENOENT (nowhere),
// EACCES (found, but not to be executed).
int child_find(const char *command, char *ret_path);

// Starts `path` with `argv` and `environment`. 0, or -errno of fork or exec.
int child_start(struct child *child, const char *path, char **argv, char **environment);

// For one that is our child already, through PR_SET_CHILD_SUBREAPER. Signals of
// ours are held back from here on. 0, or -ECHILD: it is not.
int child_adopt(struct child *child, pid_t pid);

// Passes signals on until the child has ended; calls `idle(user)` at growing intervals: after
// 20 ms, 40 ms, … up to every 10 s. Others that end as our children are buried. Returns what waitpid said.
int child_wait(struct child *child, void (*idle)(void *user), void *user);

// What a shell would show: the exit status, or 128 + the signal. One that a dump has ended is not lost: that is said on
// stderr, with the way back, and the code is EXIT_WRITTEN_DOWN.
int child_exit_code(struct child *child, int wait_status);
