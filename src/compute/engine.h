// Declares the parts of the scheduler for this directory. Only the scheduler's thread uses lanes (sets of SMs), quanta,
// marks (events between launches) and places (a compute unit's driver streams in a lane). The scheduler's lock protects
// everything else. The lock is not held during driver calls, except those that destroy streams.
#pragma once
#include <pthread.h>

#include "base/lock.h"
#include "compute/compute.h"
#include "compute/registry.h"
#include "core/context.h"
#include "core/stream.h"

enum {
	COMPUTE_SLOTS = 32,    // maximum number of driver streams of a compute unit
	COMPUTE_MOST = 1024,   // maximum number of compute units, and of streams of a unit
	COMPUTE_SHAPES = 4096, // size of the table of time estimates: one entry for each pair of kernel and grid
	// Maximum number of different pairs of kernel and grid whose time estimates one quantum's duration corrects.
	COMPUTE_KINDS = 8,
	COMPUTE_PICKS = 32, // maximum number of launches before the thread checks the queues again
	COMPUTE_LONGEST_MS = 3600 * 1000,
	COMPUTE_PARAMETERS = 512 // bytes of arguments that fit into an execution without another allocation
};
#define COMPUTE_MS 1000000ull // all times are in nanoseconds

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
	struct vg_compute_unit *origin; // owns a reference; the compute unit to which the work was submitted
	struct vg_compute_unit *runner; // the compute unit that runs it; equal to `origin` unless the work migrated
	struct compute_stream *stream;
	struct vg_execution *previous, *next; // neighbours in the list of the stream's unfinished executions
	// Next in a singly linked list: of a mark, of ended executions, or of the pool.
	struct vg_execution *chain;
	uint64_t id;
	atomic_uint state, waiters;
	atomic_bool cancelled;
	int priority;
	unsigned repeat;
	atomic_uint launched; // number of launches so far; of a job: number of calls of its `step`
	bool handed;	      // true: no launch is left, because all were made or the rest was cancelled
	bool whole;	      // true: all launches were submitted, and none was cancelled
	bool gpu_shared;      // true: a quantum of this execution contained other work, too
	uint64_t queued_ns, started_ns, ended_ns, gpu_ns;
	char name[64];

	enum vg_status failure;
	int failure_code;
	char *failure_text;

	uint64_t shape; // key of the entry in the table of time estimates

	// The registered kernel; owns a reference. NULL: the execution runs `job`, which is an operation or a copy.
	struct compute_entry *entry;
	CUlaunchConfig native;
	CUlaunchAttribute *attributes;
	void **values;
	void *block; // memory for arguments that do not fit into `parameters`
	struct compute_job job;
	void (*ended)(void *user);
	void *ended_user;
	void *inside[COMPUTE_PARAMETERS / 8]; // memory for the argument values, aligned for pointers
	_Alignas(64) unsigned char parameters[COMPUTE_PARAMETERS];
};

// A virtual stream, with an ordered list of its unfinished executions. The executions from `next` on are not launched
// yet.
struct compute_stream {
	struct vg_compute_unit *unit;
	unsigned index;
	struct vg_execution *head, *tail, *next;
	bool in_hand;		   // true: the scheduler's thread is working on `next`
	struct compute_slot *slot; // the driver stream to which this stream's launched work went
	unsigned in_flight;	   // number of launched executions
	struct vg_compute_unit *ready;
	struct compute_stream *ready_previous, *ready_next; // links in the compute unit's `ready`
};

// ---- compute units ---------------------------------------------------------------------------------

struct compute_slot {
	struct vg_stream *stream; // NULL: not created yet
	struct compute_place *place;
	unsigned bound; // number of virtual streams that use this driver stream
	unsigned index;
};

// The driver streams of one compute unit in one lane.
struct compute_place {
	struct compute_lane *lane;
	struct compute_slot slots[COMPUTE_SLOTS];
};

struct compute_sample {
	uint64_t ns;
	double sm_seconds;
};
// Two readings of the counters, from which utilization is computed. `before` is at least one sampling interval older
// than `last`. While `known` is false, there is only `last`, the reading from the creation.
struct compute_samples {
	struct compute_sample before, last;
	bool known;
};

struct vg_compute_unit {
	struct core_object object;
	struct vg_compute *compute; // owns a reference
	uint64_t serial;	    // unique among the scheduler's compute units
	struct vg_compute_unit *next;
	pthread_cond_t changed; // wakes threads that wait for work or close the compute unit
	unsigned syncing;
	// `closing`: the unit accepts no work; `gone`: the scheduler's thread no longer uses it.
	bool closing, gone;
	atomic_uint undelivered; // number of ended executions whose callbacks have not returned yet

	char name[64];
	double share;
	int priority;
	atomic_int stream_priority;
	bool new_streams; // true: the priority changed, so new streams are needed when no work is in flight
	bool tensor, mixed, paused, preempted;
	enum vg_unknown_code unknown_code;
	unsigned stream_count, slot_count;
	struct compute_stream *streams;
	struct compute_stream *ready; // list of virtual streams whose next execution this compute unit runs

	// How this compute unit waits for the turns of its vGPU (turn.c); NULL: it does not wait for other processes.
	struct compute_turn *turn;

	// The lane of the unit's SM group, or a direct compute unit's own lane; NULL: the unit runs on the whole
	// device.
	struct compute_lane *home;
	double realised;
	struct compute_place whole, own;

	// `queued`: executions that wait in this compute unit; `running`: executions that this unit runs.
	unsigned queued, running;
	unsigned unfinished; // number of executions submitted to this compute unit
	unsigned in_quanta;  // number of quanta of this compute unit that have not ended
	uint64_t launches, completed, failures, cancelled, busy_ns;
	double sm_seconds;
	struct compute_samples samples;

	double virtual_time;   // GPU time that the unit has used, in SM-seconds, divided by its share
	uint64_t in_flight_ns; // estimated time of launched work whose time is not measured yet
	uint64_t idle_since;   // when the compute unit became idle or was paused; 0: the unit is busy
};

// ---- the scheduler ----------------------------------------------------------------------------------

struct compute_shape {
	uint64_t hash, asked; // `asked`: value of the scheduler's counter `asked` when the entry was last used
	double ns;	      // duration of a launch; 0: unknown
	bool checked;
};

struct vg_compute {
	struct core_object object;
	struct vg_context *context; // owns a reference
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

	struct vg_compute_unit *units; // list of the compute units, in the order of their creation
	unsigned unit_count, unit_number;
	uint64_t ids, quanta, busy_ns, longest_ns;
	// `sm_seconds`: the sum over all quanta of their duration in seconds, multiplied by the SMs of their lane.
	// `floor`: the lowest virtual time with which a compute unit starts. It follows the least virtual time of the
	// busy units, and never falls.
	double sm_seconds, floor;
	struct compute_samples samples;
	bool starved;	       // the thread found no memory for a quantum, so work waits
	bool in_hand;	       // the scheduler's thread holds work that is neither queued nor launched
	pthread_cond_t handed; // signalled when `in_hand` becomes false
	unsigned fences;       // number of threads that wait until `in_hand` is false
	atomic_uint waiters;   // number of threads that wait for an execution to end

	int failure; // the driver's error; 0: none
	char failure_text[384];

	// The list of lanes begins with the lane of the whole device. Lanes exist until the scheduler is destroyed,
	// except those of direct compute units (compute.h).
	struct compute_lane *lanes;
	struct compute_parts *parts; // the device's smallest SM groups; NULL: not created yet
	bool grouped;		     // compute units run in their SM groups, not on the whole device
	bool grouping;		     // SM groups were built, and each compute unit has one as its `home`
	bool regroup;		     // shares have changed, so the groups must be rebuilt
	struct compute_shape shapes[COMPUTE_SHAPES];
	uint64_t asked;

	struct vg_execution *ended; // ended executions, to be released after the lock is unlocked
	struct vg_lock pool_lock;
	struct vg_execution *pool;
	unsigned pooled;
	CUevent *events[2]; // unused events: without timing, with timing
	unsigned event_count[2], event_room[2];
	struct compute_mark *marks; // unused marks
	struct compute_quantum *quantums;
};

static inline struct compute_place *compute_place_of(struct vg_compute_unit *unit, const struct compute_lane *lane)
{
	return unit->home == lane ? &unit->own : &unit->whole;
}
// Notes that one virtual stream less uses this driver stream. The count may already be 0, because destroying a driver
// stream resets it.
static inline void compute_slot_leave(struct compute_slot *slot)
{
	slot->bound -= slot->bound > 0;
}
static inline bool compute_has_ended(const struct vg_execution *execution)
{
	return atomic_load_explicit(&execution->state, memory_order_acquire) >= VG_EXECUTION_COMPLETED;
}

// ---- compute.c
enum vg_status compute_usable(void); // returns STATE in a forked child
// Unlocks the scheduler's lock, then releases ended executions and runs their callbacks. Closing a compute unit waits
// for the callbacks of its work.
void compute_unlock(struct vg_compute *compute);
// Fails with CLOSED or DRIVER if no work may be submitted. Call with the lock held.
enum vg_status compute_open_for_work(const struct vg_compute_unit *unit);
// Makes the thread check the queues. COMPUTE_RING_ALWAYS wakes it from any sleep. COMPUTE_RING_ASLEEP does not wake it
// from a nap, a short sleep while work is in flight: it checks the queues after the nap anyway.
enum compute_ring { COMPUTE_RING_ASLEEP, COMPUTE_RING_ALWAYS };
void compute_ring(struct vg_compute *compute, enum compute_ring ring);

// ---- execution.c
struct vg_execution *compute_execution_allocate(struct vg_compute_unit *unit);
// Puts an execution that has no references into the scheduler's pool, to be reused, or frees it.
void compute_execution_recycle(struct vg_execution *execution);
void compute_execution_release(struct vg_execution *execution);
// Records why the execution fails, from the calling thread's last error.
void compute_execution_fail(struct vg_execution *execution, enum vg_status status);
// Ends an execution: removes it from its stream and wakes waiting threads. compute_unlock() releases the execution
// later. Call once, with the lock held.
void compute_execution_end(struct vg_execution *execution, enum vg_execution_state state);

// ---- failure.c
// Adds `executions`, 1 or -1, to the number of running executions of the device. The text of an error that ends all
// work names the devices with running executions. Add 1 before the execution is on the GPU. Any thread.
void compute_failure_count(const struct vg_compute *compute, int executions);

// ---- queue.c, under the lock
void compute_queue_add(struct vg_execution *execution);
void compute_queue_remove(struct vg_execution *execution);
// Updates the queues. Call after any change of the stream's next work, or of the compute unit that runs that work.
void compute_queue_refresh(struct compute_stream *stream);
// Returns the compute unit's next execution for a lane, or NULL if none may run now.
struct vg_execution *compute_queue_peek(struct vg_compute_unit *unit, const struct compute_lane *lane);
int compute_queue_priority(const struct vg_compute_unit *unit); // the unit's priority plus that of its most urgent work
// Records when the compute unit became idle; call after work has ended.
void compute_queue_note_idle(struct vg_compute_unit *unit);
// Makes another compute unit run the execution. The execution must be queued, or partly launched and not in use by the
// scheduler's thread.
void compute_queue_hand(struct vg_execution *execution, struct vg_compute_unit *runner);
// Gives work that a closing compute unit runs for other units back to them: queued work, and the unlaunched rest of
// running work.
void compute_queue_give_back(struct vg_compute_unit *unit);
// Pauses or resumes a unit. A paused compute unit counts as idle, and its queued work returns to it from other units.
void compute_queue_pause(struct vg_compute_unit *unit, bool paused);
void compute_queue_cancel_all(struct vg_compute_unit *unit); // cancels queued work, and asks running work to stop

// ---- policy.c, under the lock
// Chooses the unit for the lane's next quantum; NULL: no unit has work.
struct vg_compute_unit *compute_policy_pick(struct vg_compute *compute, struct compute_lane *lane);
// Returns whether an open quantum must end although its compute unit has more work and the quantum has room.
bool compute_policy_yields(struct vg_compute *compute, struct compute_lane *lane, struct vg_compute_unit *unit);
bool compute_policy_contended(struct vg_compute *compute, const struct compute_lane *lane,
			      const struct vg_compute_unit *unit);
void compute_policy_charge(struct compute_quantum *quantum, uint64_t measured_ns);
// Returns the lowest virtual time with which a compute unit continues after it was idle: the least one of the busy
// units, but at least `floor`. Adds the estimated time of work in flight to the virtual time of each busy unit.
double compute_policy_start(const struct vg_compute *compute);
bool compute_runs_in(const struct vg_compute_unit *unit, const struct compute_lane *lane);

// ---- estimate.c, under the lock
// Estimates one launch. Returns false if the duration is unknown.
bool compute_estimate(struct vg_compute *compute, const struct vg_execution *execution, uint64_t *ret_ns);
void compute_estimate_learn(struct vg_compute *compute, const struct compute_quantum *quantum, uint64_t measured_ns);
// Returns whether an earlier launch with this kernel and shape was found to be within the device's limits.
bool compute_estimate_is_checked(struct vg_compute *compute, uint64_t hash);
void compute_estimate_checked(struct vg_compute *compute, uint64_t hash);

// Implemented in unit.c: removes closed compute units from the list. Call on the scheduler's thread with the lock held.
void compute_units_update(struct vg_compute *compute);

// ---- scheduler.c
void *compute_thread(void *compute);

// ---- unit_control.c
void compute_samples_start(struct compute_samples *samples);
// Records the counters from time to time, so that utilization is known when a caller asks for it. Call on the
// scheduler's thread with the lock held.
void compute_samples_roll(struct vg_compute *compute);
// Returns how many SM-seconds were used per second, over the last one or two intervals.
double compute_samples_look(struct compute_samples *samples, uint64_t interval_ns, double sm_seconds, bool *ret_known);
