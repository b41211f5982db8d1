// Declares quanta and lanes. Only the scheduler's thread uses them, unless said otherwise.
#pragma once
#include "compute/engine.h"

// A mark: an event recorded after some launches of one driver stream.
struct compute_mark {
	struct compute_mark *next;
	CUevent event;
	struct vg_execution *ends; // executions that have ended when the event has completed
	uint64_t estimate;
	unsigned launches;
};

struct compute_track {
	struct compute_mark *first, *last;
	// The mark to use for the launched work if no other mark can be allocated. NULL: nothing was launched.
	struct compute_mark *spare;
	struct vg_execution *ends; // executions that end with this driver stream's last work, after its last mark
	uint64_t estimate;
	unsigned launches;
};

struct compute_quantum {
	struct compute_quantum *next;
	struct vg_compute_unit *unit;
	struct compute_lane *lane;
	struct compute_place *place;
	CUevent start, end;
	struct compute_slot *leader; // the driver stream with the start and end events
	uint32_t used;		     // bit mask of the driver streams in use
	bool closed;
	uint64_t estimate; // estimated time of all launched work
	unsigned launches;
	unsigned executions; // number of executions with work in this quantum
	struct vg_execution *only;
	unsigned turn; // value of the lane's `turn` when the quantum was opened; its time counts for this turn only
	struct compute_track tracks[COMPUTE_SLOTS];
	bool guessed; // true: the durations of some of the work were never measured
	unsigned kinds;
	uint64_t kind[COMPUTE_KINDS];
};

// A set of SMs that runs one quantum at a time.
struct compute_lane {
	struct compute_lane *next;
	struct vg_context *context; // owns a reference
	unsigned sms;
	unsigned begin, end; // range of the device's smallest groups
	bool rest;	     // true: the lane also has the SMs that are in no smallest group
	// Index of the SM group to which the lane belongs. -1: the lane is the whole device, or `apart`.
	int group;
	// True: the lane of a compute unit whose work is launched without waiting for a turn. It may overlap all other
	// lanes, and its time is not measured.
	bool apart;
	struct compute_quantum *first, *last; // ordered list; only `last` may be open
	uint64_t ahead;			      // estimated time of the work in flight
	unsigned launches;		      // number of launches in flight
	// Time at which work last ended, or at which work was launched into an empty lane.
	uint64_t progress_ns;
	struct vg_compute_unit *holder; // compute unit that has the turn; may be freed, so only compare the pointer
	unsigned turn;
	uint64_t turn_ns;
};

// ---- event_pool.c, for the scheduler's thread
CUresult compute_event_acquire(struct vg_compute *compute, bool timing, CUevent *ret_event);
void compute_event_release(struct vg_compute *compute, bool timing, CUevent event);	   // accepts NULL
CUresult compute_mark_acquire(struct vg_compute *compute, struct compute_mark **ret_mark); // *ret_mark has an event
void compute_mark_release(struct vg_compute *compute, struct compute_mark *mark);	   // accepts NULL
void compute_pools_finish(struct vg_compute *compute);

// ---- quantum.c, for the scheduler's thread
struct compute_quantum *compute_quantum_open(struct vg_compute *compute, struct compute_lane *lane,
					     struct vg_compute_unit *unit); // returns NULL if out of memory
// Launches the kernel `count` times, or makes one step of a job (work other than a registered kernel, see compute.h).
// Stops earlier if the execution is cancelled or fails. Sets the execution's `handed` if nothing is left to launch.
// Pass `last` if the caller then records a mark or closes the quantum: the last launch needs no mark here. Returns
// false if the context failed.
bool compute_quantum_launch(struct compute_quantum *quantum, struct vg_execution *execution, struct compute_slot *slot,
			    unsigned count, uint64_t estimate, bool last);
bool compute_quantum_mark(struct compute_quantum *quantum);
bool compute_quantum_close(struct compute_quantum *quantum);
// Returns whether quanta of one lane must not overlap quanta of the other lane.
bool compute_lanes_overlap(const struct compute_lane *lane, const struct compute_lane *other);

// Implemented in reap.c, for the scheduler's thread: appends executions that have ended to *ends. Returns false if the
// context failed.
bool compute_reap(struct vg_compute *compute, struct compute_lane *lane, struct vg_execution **ends,
		  bool *ret_progress);

// Implemented in failure.c: records that the context failed with `result`, and sets the last error. Any thread may call
// it. The caller must not hold the scheduler's lock, because the function locks it.
void compute_break(struct vg_compute *compute, CUresult result);

// Implemented in feed.c: submits work to the GPU. Returns true if something was submitted. Call on the scheduler's
// thread with the lock held.
bool compute_feed(struct vg_compute *compute, struct compute_lane *lane);
// Closes all open quanta, so that work in other lanes runs after them.
void compute_feed_close(struct vg_compute *compute);

// ---- lane.c
enum vg_status compute_lanes_create(struct vg_compute *compute);
void compute_lanes_destroy(struct vg_compute *compute);
void compute_lane_remove(struct vg_compute *compute, struct compute_lane *lane); // the lane must be empty
// Appends a lane, which retains the context. Returns NULL if out of memory.
struct compute_lane *compute_lane_new(struct vg_compute *compute, struct vg_context *context, unsigned sms);
// Destroys the driver streams of a compute unit in one lane. Call when no work is in flight.
void compute_place_drop(struct compute_place *place);
enum vg_status compute_slot_ready(struct vg_compute_unit *unit, struct compute_slot *slot, struct compute_lane *lane);

// ---- group.c, for the scheduler's thread with the lock held
// Decides whether quanta run in SM groups or on the whole device. Rebuilds the groups after shares have changed.
void compute_group(struct vg_compute *compute);
void compute_parts_destroy(struct compute_parts *parts);

// ---- group_plan.c
struct compute_plan {
	unsigned part_sms, parts, sms; // input: SMs of a smallest group, number of these groups, SMs of the device
	double tolerance;	       // input: largest allowed deviation from the shares; negative: any
	unsigned taken;		       // output: number of smallest groups that compute units get
	bool rest;		       // output: at least one compute unit has no group
	// Output: index of the unit that gets the SMs outside of all smallest groups; SIZE_MAX: none.
	size_t extra;
};
// Divides the SMs of the device among compute units by their shares. The driver divides SMs only in groups of a
// smallest size. Stores for each unit how many such groups it gets; 0: the unit runs in turns on the SMs that are left.
// Returns false if the SMs that a unit gets deviate from its share by more than the tolerance.
bool compute_plan_groups(struct compute_plan *plan, const double *shares, unsigned *ret_parts, size_t count);
