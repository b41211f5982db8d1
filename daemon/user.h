// Keeps a record of each user, and applies the limits of users. Main thread only.
#pragma once
#include "daemon/node.h"

// The limits of one user. The system's daemon applies them to all users except root. A user's own daemon serves no
// other users.
enum {
	USER_CONNECTIONS = 128, // the most connections of the user that are accepted and not closed
	USER_SERVED = 16,	// the most connections of the user that the loop reads at a time; the others wait
	USER_JOBS = 256,	// the most tasks (struct work) that wait in one queue of the user (enum work_lane)
	USER_VGPUS = 64,
	USER_TENANTS = 2048, // the most slots of the user's ledgers for which the daemon keeps a record
	// at most an eighth of the daemon's descriptors may be pidfds for this user; the broker has its own limit
	USER_FILES_PART = 8,
	// how many ms of each USER_WINDOW_MS the main loop may spend on the user's ledgers and processes
	USER_TIME_MS = 10,
	// if answering a request took longer, the user's next request is delayed by twice the time that it took
	USER_LONG_MS = 2,
	USER_WINDOW_MS = 250,
};

// A lane is a queue for one kind of work. Each user has one thread for each lane (work.h). WORK_UNREAD closes
// connections from which nothing was read. Such a close never waits for the user's own programs, but work in WORK_ANY
// may wait for them. So the two have different lanes. WORK_NAMES waits for the system's directory of users. WORK_DISK
// is for the daemon's own files; signals do not interrupt its writes. WORK_MEMORY frees host memory of ended processes.
enum work_lane { WORK_ANY, WORK_UNREAD, WORK_NAMES, WORK_DISK, WORK_MEMORY, WORK_LANES };

struct user {
	struct user *next;
	// `uid` can be a subordinate id; `owner`: the user whose limits apply to it (user_owner())
	uid_t uid, owner;
	// the user's connections, and those that the loop reads; counted by connection.c
	unsigned int connections, served;
	// the user's vGPUs (counted by vgpu.c and leftover.c), and their tenants (by tenant.c)
	unsigned int vgpus, tenants;
	// number of pidfds of the user's launchers and tenants, and of epoll instances of exports
	unsigned int processes;
	unsigned int jobs[WORK_LANES]; // number of tasks in each lane; counted by work.c
	unsigned int watched;	       // number of sources in the epoll instance `events`; counted by source.c
	// These members are used in the record of an owner, but not in the records of the owner's subordinate ids:
	struct source events; // an epoll instance with the user's sources; fd -1: none
	// start of the present period of USER_WINDOW_MS, and how much of the loop's time was used in it
	uint64_t window_ns, used_ns;
	uint64_t rests_until_ns; // no request of the user is answered before this time
};

// Returns the user's record, never NULL. It is valid until the next iteration of the loop, and longer while one of the
// numbers in it is not 0.
struct user *user_of(uid_t uid);
// Frees the records in which all numbers are 0 and that delay nothing any more, and closes their epoll instances.
// Lowers *deadline to the time at which the next record can be freed.
void user_forget_idle(struct node *node, uint64_t *deadline);
// Returns the record with the epoll instance of the user's sources; the loop handles one event of it in each iteration.
// NULL: no descriptor is left.
struct user *user_events(struct node *node, uid_t uid);
// Returns the user whose limits apply: for a subordinate id its owner, else the user.
uid_t user_owner(uid_t uid);
// Sets the function that finds the owner of an id, and updates the owners in all records.
void user_set_owners(uid_t (*find_owner)(uid_t uid));
// Returns a record with the sums of the numbers in the records of all user ids that have the same owner as `uid`: the
// owner's own id, and the owner's subordinate ids.
struct user user_total(uid_t uid);
bool user_is_limited(const struct node *node, uid_t uid);
// Counts a pidfd. Call it before the pidfd is opened. Returns false if the user has reached the limit.
bool user_count_process(const struct node *node, uid_t uid);
void user_uncount_process(uid_t uid);

// Notes that a request was answered, and that this took from `begun_ns` until now.
void user_charge_request(uid_t uid, uint64_t begun_ns);
// Returns the time at which the user's next request may be answered; 0: now.
uint64_t user_waits_until(const struct node *node, uid_t uid);

// Begin and end a period in which the main loop's time is charged to the user. The first two functions return whether
// the user has time left.
bool user_begin_time(const struct node *node, uid_t uid);
bool user_has_time(void);
void user_end_time(void);
