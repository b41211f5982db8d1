// Work that may take long because of what a user has made: closing the user's descriptors, reading what the kernel shows
// of the user's processes. A thread for each such user does it, so that whatever hangs holds up nobody else.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct node;

// Each user has a thread for each lane. To close a connection that was not read never waits for the user's own programs,
// so it need not stand behind other work that does. WORK_NAMES waits for the
// system's directory of users. WORK_DISK is the daemon's own: signals do not interrupt its writes.
enum work_lane { WORK_ANY, WORK_UNREAD, WORK_NAMES, WORK_DISK, WORK_LANES };

// The first member of each kind of work.
struct work {
	struct work *next;
	uid_t uid;
	enum work_lane lane;
	void (*run)(struct work *work); // in the user's thread: it has the work alone, and nothing of the node
	void (*done)(struct node *node, struct work *work); // in the loop, afterwards; frees it
};

// 0 or -errno.
int work_start(struct node *node);
// Gives work to the user's thread of its lane. False: it has too much to do already, or cannot be started; the work stays the
// caller's.
bool work_post(uid_t uid, struct work *work);
bool work_is_full(uid_t uid, enum work_lane lane);
// From here on a socket that lingers ends this thread's close() after a moment; with false, no more.
void work_hurry(bool hurry);
// Takes what is done, or waits for something for as long.
void work_collect(struct node *node, int timeout_ms);
