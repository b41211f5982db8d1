// Quanta and lanes. For the scheduler's thread only, unless said otherwise.
#pragma once
#include "compute/engine.h"

// An event after some launches of one slot.
struct compute_mark {
	struct compute_mark *next;
	CUevent event;
	struct vg_execution *ends; // executions that have ended when the event is reached
	uint64_t estimate;
	unsigned launches;
};

struct compute_track {
	struct compute_mark *first, *last;
	// reserved for the launched work, in case no other mark can be allocated; NULL: nothing was launched
	struct compute_mark *spare;
	struct vg_execution *ends; // after the last mark
	uint64_t estimate;
	unsigned launches;
};

struct compute_quantum {
	struct compute_quantum *next;
	struct vg_compute_unit *unit;
	struct compute_lane *lane;
	struct compute_place *place;
	CUevent start, end;
	struct compute_slot *leader; // its stream has both events
	uint32_t used;		     // bits of slots
	bool closed;
	uint64_t estimate; // of all launched work
	unsigned launches;
	unsigned executions; // number of executions with work in it
	struct vg_execution *only;
	unsigned turn; // number of the lane's turn
	struct compute_track tracks[COMPUTE_SLOTS];
	bool guessed; // the duration of some of its work is unknown
	unsigned kinds;
	uint64_t kind[COMPUTE_KINDS];
};

// A set of SMs that runs one quantum at a time.
struct compute_lane {
	struct compute_lane *next;
	struct vg_context *context; // a reference
	unsigned sms;
	unsigned begin, end;		      // range of the device's smallest groups
	bool rest;			      // also has the SMs that are in no group
	int group;			      // number of the group; -1: the whole device, or a direct unit's lane
	bool apart;			      // a direct unit's lane: overlaps all others, and nothing is measured
	struct compute_quantum *first, *last; // in order; only `last` may be open
	uint64_t ahead;			      // estimate of the work in flight
	unsigned launches;		      // number of launches in flight
	uint64_t progress_ns;		      // when work last ended, or was launched into an empty lane
	struct vg_compute_unit *holder;	      // owner of the turn; only for comparison, may be freed
	unsigned turn;
	uint64_t turn_ns;
};

// ---- event_pool.c, for the thread
CUresult compute_event_acquire(struct vg_compute *compute, bool timing, CUevent *ret_event);
void compute_event_release(struct vg_compute *compute, bool timing, CUevent event);	   // NULL is fine
CUresult compute_mark_acquire(struct vg_compute *compute, struct compute_mark **ret_mark); // with an event
void compute_mark_release(struct vg_compute *compute, struct compute_mark *mark);	   // NULL is fine
void compute_pools_finish(struct vg_compute *compute);

// ---- quantum.c, for the thread
struct compute_quantum *compute_quantum_open(struct vg_compute *compute, struct compute_lane *lane,
					     struct vg_compute_unit *unit); // NULL: no memory
// Launches `count` times, or a job's next piece; fewer if it is cancelled or fails. Sets `handed` if nothing is left.
// `last`: the caller marks or closes next. Returns false if the context failed.
bool compute_quantum_launch(struct compute_quantum *quantum, struct vg_execution *execution, struct compute_slot *slot,
			    unsigned count, uint64_t estimate, bool last);
bool compute_quantum_mark(struct compute_quantum *quantum);
bool compute_quantum_close(struct compute_quantum *quantum);
// Returns whether quanta of the two lanes must not overlap.
bool compute_lanes_overlap(const struct compute_lane *lane, const struct compute_lane *other);

// reap.c, for the thread: chains executions that have ended to *ends. Returns false if the context failed.
bool compute_reap(struct vg_compute *compute, struct compute_lane *lane, struct vg_execution **ends,
		  bool *ret_progress);

// failure.c: records that the context failed with `result`, and sets the last error. Any thread, without the lock.
void compute_break(struct vg_compute *compute, CUresult result);

// feed.c, for the thread, under the lock. Returns true if something was done.
bool compute_feed(struct vg_compute *compute, struct compute_lane *lane);
// Closes all open quanta, so that work in other lanes comes after them.
void compute_feed_close(struct vg_compute *compute);

// ---- lane.c
enum vg_status compute_lanes_create(struct vg_compute *compute);
void compute_lanes_destroy(struct vg_compute *compute);
void compute_lane_remove(struct vg_compute *compute, struct compute_lane *lane); // empty
// Appends a lane, with a reference to the context. Returns NULL without memory.
struct compute_lane *compute_lane_new(struct vg_compute *compute, struct vg_context *context, unsigned sms);
// Destroys the place's streams. Call without work in flight.
void compute_place_drop(struct compute_place *place);
enum vg_status compute_slot_ready(struct vg_compute_unit *unit, struct compute_slot *slot, struct compute_lane *lane);

// ---- group.c, for the thread, under the lock
// Decides whether quanta run in groups or on the whole device, and rebuilds the groups after changes of shares.
void compute_group(struct vg_compute *compute);
void compute_parts_destroy(struct compute_parts *parts);

// ---- group_plan.c
struct compute_plan {
	unsigned part_sms, parts, sms; // input: SMs of a smallest group, their number, SMs of the device
	double tolerance;	       // input; negative: any deviation
	unsigned taken;		       // output: parts in groups
	bool rest;		       // output: some unit has no group
	size_t extra;		       // output: index of the unit with the SMs that are in no part; SIZE_MAX: none
};
// Computes how many parts each share gets; 0: time on the rest. Returns false if a deviation exceeds the tolerance.
bool compute_plan_groups(struct compute_plan *plan, const double *shares, unsigned *ret_parts, size_t count);
