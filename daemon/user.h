// What each user has of the daemon, and how much that may be. One thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/node.h"
#include "daemon/work.h"

// Of one user. The system's daemon holds everybody but root to them; a user's own daemon serves nobody else.
enum {
	USER_CONNECTIONS = 128, // accepted, and not closed yet
	USER_SERVED = 16,	// of these, how many the loop reads at a time; the others wait their turn
	USER_JOBS = 256,	// that wait for each of the user's threads (work.h)
	USER_VGPUS = 64,
	USER_TENANTS = 2048, // slots of ledgers that the daemon keeps in mind
	USER_FILES_PART = 8, // pidfds: one of so many of the daemon's descriptors; as much again with the broker
	USER_TIME_MS = 10,   // of the loop's time for looking at ledgers and processes, in each USER_WINDOW_MS
	USER_LONG_MS = 2,	// after an answer that took longer, the user's next one waits twice as long as it took
	USER_WINDOW_MS = 250,
};

struct user {
	struct user *next;
	uid_t uid, owner; // `owner`: whose limits count for it (user_owner())
	unsigned int connections, served; // connection.c
	unsigned int vgpus, tenants;	  // registry.c, tenant.c
	unsigned int processes;		  // pidfds of launchers and tenants
	unsigned int jobs[WORK_LANES];	  // work.c
	unsigned int watched;		  // sources in `events`
	// Of an owner:
	struct source events;	     // an epoll instance of the user's sources; fd -1: none
	uint64_t window_ns, used_ns; // the loop's time
	uint64_t rests_until_ns;     // no request is answered before
};

// Never NULL. Stands until the loop's next turn, and as long as something is counted in it.
struct user *user_of(uid_t uid);
void user_forget_idle(struct node *node); // those of whom nothing is counted
// Where the user's sources wait: the loop takes one event of each user in turn. NULL: there is no descriptor for it.
struct user *user_events(struct node *node, uid_t uid);
// The user whose limits count: the owner of a subordinate id (subordinate.h).
uid_t user_owner(uid_t uid);
void user_find_owners(void); // anew, after the table of subordinate ids has changed
// What the user has under all ids of its owner.
struct user user_total(uid_t uid);
bool user_is_limited(const struct node *node, uid_t uid);
// Counts a pidfd for the user, before it is opened. False: the user has as many as may be.
bool user_take_process(const struct node *node, uid_t uid);
void user_drop_process(uid_t uid);

// A request of the user's was answered, which took from `begun_ns` on: others have their turn.
void user_charge_request(uid_t uid, uint64_t begun_ns);
// When the user's next request may be answered; 0: now.
uint64_t user_waits_until(const struct node *node, uid_t uid);

// Between begin and end the loop's time is the user's. False: there is none left for now.
bool user_begin_time(const struct node *node, uid_t uid);
bool user_has_time(void);
void user_end_time(void);
