// The state of an arbiter, which its thread and the main thread share. Only arbiter.c and arbiter_thread.c include it.
#pragma once
#include "daemon/arbiter.h"
#include "turn/gang.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ARBITER_HISTORY = 11 }; // length of the history in seconds

// A vGPU that has a seat, or a part of one.
struct part {
	const struct vgpu *vgpu; // the arbiter's thread must not dereference this pointer
	struct vg_ledger *ledger;
	struct arbiter_stops stops;
	bool has_stops; // the array `stops` has at least one bit set
	uint32_t bell;	// the value of the vGPU's bell when it was last read
	struct turn_facts facts;
};

// A vGPU, or all vGPUs of a job, which have their turns together.
struct seat {
	struct part *parts;
	unsigned int part_count; // 0: the seat is free
	struct turn_gang gang;
	struct turn_terms terms;
	uint64_t joined_ns;
	uint64_t charged[ARBITER_HISTORY]; // the vGPU's charged time at the end of each of the last seconds
	// While phases are recorded: the present one, with the sums at its beginning instead of the differences.
	struct phase_record present;
};

struct arbiter {
	struct arbiter *next;
	uint64_t devices; // bits: its devices; more than one if jobs use several of them
	enum turn_mode mode;
	pthread_t thread;
	pthread_mutex_t lock; // guards everything below
	struct turn_arbiter *turn;
	struct turn_orders orders;
	struct turn_facts facts[TURN_VGPUS];
	struct seat seats[TURN_VGPUS];
	unsigned int most;	 // seats from this index on were never used
	unsigned int part_count; // of all seats; at most TURN_VGPUS, because each has a bell
	uint64_t second;	 // the last second in the history
	uint64_t handovers[ARBITER_HISTORY];
	bool ending;
	struct phase_log *log; // NULL: phases are not recorded
	_Atomic uint32_t bell; // the main thread wakes the arbiter's thread by this futex
	uint64_t period; // the present period and the number of decisions in it; used by the arbiter's thread only
	unsigned int decisions;
};

// Runs as the thread of an arbiter: decides again and again which vGPU has the turn, until `ending` is set. `data` is
// the struct arbiter.
void *arbiter_thread_run(void *data);
// Follows the phase of one vGPU. Ends the present one if it has changed, or in any case if `cuts` is true. The caller
// holds the lock.
void arbiter_thread_follow_phase(struct arbiter *arbiter, unsigned int index, uint64_t now, bool cuts);
// The same for all vGPUs. Does nothing while no phases are recorded.
void arbiter_thread_follow_phases(struct arbiter *arbiter, uint64_t now, bool cuts);
// Wakes the threads that wait at the gates of a vGPU.
void arbiter_thread_wake_gates(struct turn_page *page);
