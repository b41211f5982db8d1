// What the daemon keeps for each user, and the limits of that. Main thread only.
#pragma once
#include "daemon/node.h"

// Limits of one user. The system's daemon applies them to all users except root; a user's own daemon has no other
// users.
enum {
	USER_CONNECTIONS = 128, // accepted and not closed
	USER_SERVED = 16,	// connections that the loop reads at a time; the others wait
	USER_JOBS = 256,	// waiting in one lane
	USER_VGPUS = 64,
	USER_TENANTS = 2048, // slots of ledgers that the daemon keeps a record of
	USER_FILES_PART = 8, // pidfds: this part of the daemon's descriptors; the broker has its own limit
	USER_TIME_MS = 10,   // of the loop's time for ledgers and processes, in each USER_WINDOW_MS
	USER_LONG_MS = 2,    // after an answer that took longer, the user's next one is delayed by twice that time
	USER_WINDOW_MS = 250,
};

// Each user has a thread for each lane (work.h). Closing a connection that was not read never waits for the user's own
// programs, so WORK_UNREAD does not queue behind work that does. WORK_NAMES waits for the system's directory of users.
// WORK_DISK is the daemon's own: signals do not interrupt its writes.
enum work_lane { WORK_ANY, WORK_UNREAD, WORK_NAMES, WORK_DISK, WORK_LANES };

struct user {
	struct user *next;
	uid_t uid, owner; // `owner`: the user whose limits apply (user_owner())
	unsigned int connections, served; // counted by connection.c
	unsigned int vgpus, tenants;	  // counted by vgpu.c, leftover.c and tenant.c
	unsigned int processes;		  // pidfds of launchers and tenants, and epoll instances of exports
	unsigned int jobs[WORK_LANES];	  // counted by work.c
	unsigned int watched;		  // sources in `events`, counted by source.c
	// Of an owner only:
	struct source events;	     // an epoll instance with the user's sources; fd -1: none
	uint64_t window_ns, used_ns; // start of the present window, and the loop's time used in it
	uint64_t rests_until_ns;     // no request is answered before
};

// Never returns NULL. The result is valid until the next iteration of the loop, or longer while something is counted.
struct user *user_of(uid_t uid);
// Forgets users for whom nothing is counted, and closes their epoll instances. Lowers *deadline to the time at which
// another one can be forgotten.
void user_forget_idle(struct node *node, uint64_t *deadline);
// Returns the user with the epoll instance of the user's sources, of which the loop handles one event in each
// iteration. NULL: no descriptor is left.
struct user *user_events(struct node *node, uid_t uid);
// Returns the user whose limits apply: the owner of a subordinate id.
uid_t user_owner(uid_t uid);
// Sets the function that finds the owner of an id, and finds the owners of all users again.
void user_set_owners(uid_t (*find_owner)(uid_t uid));
// Returns the sums over all ids of the user's owner.
struct user user_total(uid_t uid);
bool user_is_limited(const struct node *node, uid_t uid);
// Counts a pidfd before it is opened. Returns false if the user has reached the limit.
bool user_count_process(const struct node *node, uid_t uid);
void user_uncount_process(uid_t uid);

// Notes that a request was answered, which took from `begun_ns` until now.
void user_charge_request(uid_t uid, uint64_t begun_ns);
// Returns the time at which the user's next request may be answered; 0: now.
uint64_t user_waits_until(const struct node *node, uid_t uid);

// Between begin and end the loop's time is charged to the user. Return whether some of it is left.
bool user_begin_time(const struct node *node, uid_t uid);
bool user_has_time(void);
void user_end_time(void);
