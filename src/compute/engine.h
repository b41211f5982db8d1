// The inside of a scheduler. Its thread alone touches lanes, quanta, marks and places; the rest is under the lock,
// which is held over no driver call but those that end streams.
#pragma once
#include <pthread.h>

#include "base/lock.h"
#include "compute/compute.h"
#include "compute/registry.h"
#include "core/context.h"
#include "core/stream.h"

enum {
	COMPUTE_SLOTS = 32,    // driver streams of a unit, at most
	COMPUTE_MOST = 1024,   // units, streams of a unit
	COMPUTE_SHAPES = 4096, // kernels with their grids whose GPU time is estimated
	COMPUTE_KINDS = 8,     // of them in one quantum that learn from it
	COMPUTE_PICKS = 32,    // handed over between two looks at the queues
	COMPUTE_LONGEST_MS = 3600 * 1000,
	COMPUTE_PARAMETERS = 512 // bytes of arguments that an execution holds by itself
};
#define COMPUTE_MS 1000000ull // in nanoseconds, as all times here

struct compute_lane;
struct compute_mark;
struct compute_parts;
struct compute_place;
struct compute_quantum;
struct compute_slot;
struct compute_turn;

// ---- executions ------------------------------------------------------------------------------------

struct vg_execution {
	struct core_object object;
	struct vg_compute_unit *origin; // held
	struct vg_compute_unit *runner; // whose turns it takes; the origin unless it migrated
	struct compute_stream *stream;
	struct vg_execution *previous, *next; // of the stream's that have not ended
	struct vg_execution *chain;	      // of a mark's, of those that have ended, of the pool
	uint64_t id;
	atomic_uint state, waiters;
	atomic_bool cancelled;
	int priority;
	unsigned repeat;
	atomic_uint launched; // handed over; of a job: pieces
	bool handed;	      // nothing is left to hand over
	bool whole;	      // nor was anything left out
	bool gpu_shared;      // some quantum of it had other work, too
	uint64_t queued_ns, started_ns, ended_ns, gpu_ns;
	char name[64];

	enum vg_status failure;
	int failure_code;
	char *failure_text;

	uint64_t shape; // what it is estimated by

	struct compute_entry *entry; // held; NULL: a job
	CUlaunchConfig native;
	CUlaunchAttribute *attributes;
	void **values;
	void *block; // of arguments that found no room in here
	struct compute_job job;
	void (*ended)(void *user);
	void *ended_user;
	void *inside[COMPUTE_PARAMETERS / 8]; // values
	_Alignas(64) unsigned char parameters[COMPUTE_PARAMETERS];
};

// A virtual stream. Its executions that have not ended are a list, in order; those from `next` on were not handed over.
struct compute_stream {
	struct vg_compute_unit *unit;
	unsigned index;
	struct vg_execution *head, *tail, *next;
	bool in_hand;		   // the thread has `next` with it
	struct compute_slot *slot; // where what was handed over is
	unsigned in_flight;	   // how much that is
	struct vg_compute_unit *ready;
	struct compute_stream *ready_previous, *ready_next; // of the unit's `ready`
};

// ---- units -----------------------------------------------------------------------------------------

struct compute_slot {
	struct vg_stream *stream; // NULL: not needed yet
	struct compute_place *place;
	unsigned bound; // virtual streams that are in it
	unsigned index;
};

// A unit's driver streams in one lane.
struct compute_place {
	struct compute_lane *lane;
	struct compute_slot slots[COMPUTE_SLOTS];
};

struct compute_sample {
	uint64_t ns;
	double sm_seconds;
};
// Two moments, an interval or more apart; the first one is the beginning.
struct compute_samples {
	struct compute_sample before, last;
	bool known;
};

struct vg_compute_unit {
	struct core_object object;
	struct vg_compute *compute; // held
	uint64_t serial;	    // of its scheduler's units: no other ever has it
	struct vg_compute_unit *next;
	pthread_cond_t changed; // for those who sync and close
	unsigned syncing;
	bool closing, gone;  // gone: the thread knows it no more
	atomic_uint telling; // of how many ends nobody was told yet

	char name[64];
	double share;
	int priority;
	atomic_int stream_priority;
	bool new_streams; // of another priority, once it has nothing in flight
	bool tensor, mixed, paused, preempted;
	enum vg_unknown_code unknown_code;
	unsigned stream_count, slot_count;
	struct compute_stream *streams;
	struct compute_stream *ready; // streams whose next work is this unit's

	struct compute_turn *turn; // turn.c; NULL: its vGPU is known to this process alone

	struct compute_lane *home; // its group, or of its own; NULL: the whole device
	double realised;
	struct compute_place whole, own;

	unsigned queued, running; // as runner
	unsigned unfinished;	  // as origin
	unsigned in_quanta;	  // of it that have not ended
	uint64_t launches, completed, failures, cancelled, busy_ns;
	double sm_seconds;
	struct compute_samples samples;

	double virtual_time;   // SM-seconds over share
	uint64_t in_flight_ns; // estimates of what was handed over and not measured
	uint64_t idle_since;   // has nothing to do, or is paused; 0: it is busy
};

// ---- the scheduler ----------------------------------------------------------------------------------

struct compute_shape {
	uint64_t hash, asked; // when it was asked for
	double ns;	      // of a launch; 0: not known
	bool checked;
};

struct vg_compute {
	struct core_object object;
	struct vg_context *context; // held
	struct vg_device *device;
	struct compute_registry *registry;
	bool direct;
	pthread_mutex_t lock;
	pthread_t thread;
	bool started, stopping, joined;
	atomic_uint bell, asleep;

	enum vg_compute_policy policy;
	enum vg_compute_placement placement;
	double tolerance;
	unsigned max_units, slice_ms, interval_ms, sms;
	bool lending, preemption;

	struct vg_compute_unit *units; // in the order of their creation
	unsigned unit_count, unit_number;
	uint64_t ids, quanta, busy_ns, longest_ns;
	double sm_seconds, floor; // `floor`: the least virtual time that a busy unit has had
	struct compute_samples samples;
	bool starved;	       // the thread's: no memory for a quantum, so that work waits
	bool in_hand;	       // the thread has work that is neither queued nor handed over
	pthread_cond_t handed; // it has not any more
	unsigned fences;       // that wait for that
	atomic_uint waiters;   // for executions, in sync, in close

	int failure; // the driver's; 0: none
	char failure_text[384];

	struct compute_lane *lanes;  // the whole device's first; none goes before the end but units' own
	struct compute_parts *parts; // what groups are made of; NULL: not needed yet
	bool grouped;		     // units run at home, and not on the whole device
	bool grouping;		     // they have homes that their shares ask for
	bool regroup;		     // shares have changed
	struct compute_shape shapes[COMPUTE_SHAPES];
	uint64_t asked;

	struct vg_execution *ended; // to be dropped once the lock is given back
	struct vg_lock pool_lock;
	struct vg_execution *pool;
	unsigned pooled;
	CUevent *events[2]; // spare ones without and with timing
	unsigned event_count[2], event_room[2];
	struct compute_mark *marks; // spare ones
	struct compute_quantum *quantums;
};

static inline struct compute_place *compute_place_of(struct vg_compute_unit *unit, const struct compute_lane *lane)
{
	return unit->home == lane ? &unit->own : &unit->whole;
}
// Streams of the driver that were dropped meanwhile have forgotten who was in them.
static inline void compute_slot_leave(struct compute_slot *slot)
{
	slot->bound -= slot->bound > 0;
}
static inline bool compute_has_ended(const struct vg_execution *execution)
{
	return atomic_load_explicit(&execution->state, memory_order_acquire) >= VG_EXECUTION_COMPLETED;
}

// ---- compute.c
enum vg_status compute_usable(void); // STATE in a forked child
// Gives the lock back, then drops what has ended meanwhile: callbacks run here, and who closes a unit waits for those
// of its work.
void compute_unlock(struct vg_compute *compute);
// Under the lock: CLOSED or DRIVER where nothing may be submitted.
enum vg_status compute_open_for_work(const struct vg_compute_unit *unit);
// The thread looks at the queues; from a nap only if asked to: work is on its way to the GPU then.
void compute_ring(struct vg_compute *compute, bool also_napping);

// ---- execution.c
struct vg_execution *compute_execution_take(struct vg_compute_unit *unit);
void compute_execution_give(struct vg_execution *execution); // the last reference's
void compute_execution_release(struct vg_execution *execution);
// Why it shall fail, from the calling thread's last error.
void compute_execution_fail(struct vg_execution *execution, enum vg_status status);
// Under the lock. Ended once: takes it out of its stream, wakes whoever waits, leaves it to compute_unlock().
void compute_execution_end(struct vg_execution *execution, enum vg_execution_state state);

// ---- failure.c
// So many executions more, or less, are running: before they are on the GPU. Any thread.
void compute_failure_count(const struct vg_compute *compute, int executions);

// ---- queue.c, under the lock
void compute_queue_add(struct vg_execution *execution);
void compute_queue_remove(struct vg_execution *execution);
// After anything that may change what the stream's next work is, and whose.
void compute_queue_refresh(struct compute_stream *stream);
// The unit's next work in a lane; NULL: none that may go now.
struct vg_execution *compute_queue_peek(struct vg_compute_unit *unit, const struct compute_lane *lane);
int compute_queue_priority(const struct vg_compute_unit *unit); // the unit's with its most urgent work's
// The unit has ended something: is it idle now?
void compute_queue_note_idle(struct vg_compute_unit *unit);
// Whose turns work takes that is queued, or of which not all was handed over and nothing is in hand.
void compute_queue_hand(struct vg_execution *execution, struct vg_compute_unit *runner);
// What a unit that is closing was to run for others goes back: what is queued, and the rest of what it has begun.
void compute_queue_give_back(struct vg_compute_unit *unit);
// A unit that is paused counts as idle, and has back what others were to run for it.
void compute_queue_pause(struct vg_compute_unit *unit, bool paused);
void compute_queue_cancel_all(struct vg_compute_unit *unit); // of those that are not running; asks the others

// ---- policy.c, under the lock
// Who has the lane's next quantum; NULL: nobody has work.
struct vg_compute_unit *compute_policy_pick(struct vg_compute *compute, struct compute_lane *lane);
// Whether an open quantum shall end, though it has work and room.
bool compute_policy_yields(struct vg_compute *compute, struct compute_lane *lane, struct vg_compute_unit *unit);
bool compute_policy_contended(struct vg_compute *compute, const struct compute_lane *lane,
			      const struct vg_compute_unit *unit);
void compute_policy_charge(struct compute_quantum *quantum, uint64_t measured_ns);
// The virtual time of who comes back from idling: that of who has had the least, with what is on its way.
double compute_policy_start(const struct vg_compute *compute);
bool compute_runs_in(const struct vg_compute_unit *unit, const struct compute_lane *lane);

// ---- estimate.c, under the lock
// Of one launch. False: nobody knows.
bool compute_estimate(struct vg_compute *compute, const struct vg_execution *execution, uint64_t *ret_ns);
void compute_estimate_learn(struct vg_compute *compute, const struct compute_quantum *quantum, uint64_t measured_ns);
// Whether a launch like it was found to be within the device's limits.
bool compute_estimate_is_checked(struct vg_compute *compute, uint64_t hash);
void compute_estimate_checked(struct vg_compute *compute, uint64_t hash);

// ---- unit.c: the thread's, under the lock: units that come and go
void compute_units_settle(struct vg_compute *compute);

// ---- scheduler.c
void *compute_thread(void *compute);

// ---- unit_control.c
void compute_samples_start(struct compute_samples *samples);
// The thread's, under the lock: nobody may have looked for long.
void compute_samples_roll(struct vg_compute *compute);
// SM-seconds a second, over the last interval or two.
double compute_samples_look(struct compute_samples *samples, uint64_t interval_ns, double sm_seconds, bool *ret_known);
