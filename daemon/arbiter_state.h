// The state of an arbiter, which its thread and the main thread share. Only arbiter.c and arbiter_thread.c include it.
#pragma once
#include "daemon/arbiter.h"
#include "turn/gang.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ARBITER_HISTORY = 11 }; // number of seconds for which figures are kept

// One vGPU in a seat. A seat has several parts only if it is that of a job.
struct part {
	const struct vgpu *vgpu; // the arbiter's thread must not dereference this pointer
	struct vg_ledger *ledger;
	struct arbiter_stops stops;
	bool has_stops; // the array `stops` has at least one bit set
	// the last value read from the futex (in the ledger) by which the vGPU's processes wake the arbiter's thread
	uint32_t bell;
	struct turn_facts facts;
	// While phases are recorded: the phase that is not over yet. Its `charged_ns` and `launches` are the sums at
	// the beginning of the phase; log_phase() computes the differences.
	struct phase_record present;
};

// One participant in the turns: a vGPU, or all vGPUs of a job, which have their turns together.
struct seat {
	struct part *parts;
	unsigned int part_count; // 0: the seat is free
	struct turn_gang gang;
	struct turn_terms terms;
	uint64_t joined_ns;
	uint64_t charged[ARBITER_HISTORY]; // the GPU time charged to the vGPU until the end of each of the last seconds
};

struct arbiter {
	struct arbiter *next;
	uint64_t devices; // bit mask of its devices; more than one device if jobs use several
	enum turn_mode mode;
	pthread_t thread;
	pthread_mutex_t lock; // guards everything below
	struct turn_arbiter *turn;
	struct turn_orders orders;
	struct turn_facts facts[TURN_VGPUS];
	struct seat seats[TURN_VGPUS];
	unsigned int most; // seats from this index on were never used
	// number of parts in all seats; at most TURN_VGPUS, because the thread waits for one futex of each
	unsigned int part_count;
	uint64_t second; // the second to which the newest figures of the history belong
	uint64_t handovers[ARBITER_HISTORY];
	bool ending;
	struct phase_log *log; // NULL: phases are not recorded
	_Atomic uint32_t bell; // the main thread wakes the arbiter's thread by this futex
	// the number of the present period (period_ns), and how many decisions were made in it; only the thread uses
	// both
	uint64_t period;
	unsigned int decisions;
};

// Runs as the thread of an arbiter: decides again and again which vGPU has the turn, until `ending` is set. `data` is
// the struct arbiter.
void *arbiter_thread_run(void *data);
// Checks whether a seat is in a new phase. If it is, or if `cuts` is true, adds the phase up to now to the log, with a
// record for each vGPU of the seat. The caller holds the lock.
void arbiter_thread_follow_phase(struct arbiter *arbiter, unsigned int index, uint64_t now, bool cuts);
// Calls arbiter_thread_follow_phase() for all seats. Does nothing while no phases are recorded.
void arbiter_thread_follow_phases(struct arbiter *arbiter, uint64_t now, bool cuts);
// Wakes the threads that wait at the gates of a vGPU.
void arbiter_thread_wake_gates(struct turn_page *page);
