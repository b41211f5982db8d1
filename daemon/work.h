// Runs work that a user can make slow: closing the user's descriptors, reading what the kernel shows of the user's
// processes. A thread of that user does it, so that it delays no other user. Main thread only, except `run`.
#pragma once
#include "daemon/user.h"

// A task. It is the first member of a larger struct, which has the task's input and result.
struct work {
	struct work *next;
	uid_t uid;
	enum work_lane lane;
	void (*run)(struct work *work);			    // runs in the user's thread; must not use struct node
	void (*done)(struct node *node, struct work *work); // called in the main thread afterwards; frees the work
};

// Prepares to receive finished work in the loop. Returns 0 or -errno.
int work_start(struct node *node);
// Gives the work to the user's thread for its lane (user.h). Returns false, and leaves the work to the caller, if the
// lane is full or the thread cannot be started.
bool work_post(uid_t uid, struct work *work);
bool work_is_full(uid_t uid, enum work_lane lane);
// Start and stop a timer of the main thread. Its signals interrupt a close() that takes too long.
void work_start_timer(void);
void work_stop_timer(void);
// Waits for finished work and calls its done(). Waits at most for the given time; -1: without limit.
void work_collect(struct node *node, int timeout_ms);
