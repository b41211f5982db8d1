// Quanta and lanes: the thread's alone, unless said otherwise.
#pragma once
#include "compute/engine.h"

// Stands behind some launches of one slot.
struct compute_mark {
	struct compute_mark *next;
	CUevent event;
	struct vg_execution *ends; // that have ended once it is reached
	uint64_t estimate;
	unsigned launches;
};

struct compute_track {
	struct compute_mark *first, *last;
	struct compute_mark *spare; // for what was launched, whatever else is to be had by then; NULL: nothing was
	struct vg_execution *ends;  // behind the last mark
	uint64_t estimate;
	unsigned launches;
};

struct compute_quantum {
	struct compute_quantum *next;
	struct vg_compute_unit *unit;
	struct compute_lane *lane;
	struct compute_place *place;
	CUevent start, end;
	struct compute_slot *leader; // has both events
	uint32_t used;		     // slots
	bool closed;
	uint64_t estimate; // of all that was handed over
	unsigned launches;
	unsigned executions; // that have a part in it
	struct vg_execution *only;
	unsigned turn; // of the lane's
	struct compute_track tracks[COMPUTE_SLOTS];
	bool guessed; // nobody knows how long some of it takes
	unsigned kinds;
	uint64_t kind[COMPUTE_KINDS];
};

// SMs on which one quantum runs at a time.
struct compute_lane {
	struct compute_lane *next;
	struct vg_context *context; // held
	unsigned sms;
	unsigned begin, end;		      // its smallest groups, of those that the device is split into
	bool rest;			      // and the SMs that are in none
	int group;			      // its number; -1: the whole device, or a unit's own
	bool apart;			      // overlaps with nobody's: nothing is measured
	struct compute_quantum *first, *last; // in order; `last` may take more
	uint64_t ahead;			      // estimate of what has been handed over and has not ended
	unsigned launches;		      // likewise
	uint64_t progress_ns;		      // when something ended, or was handed over into nothing
	struct vg_compute_unit *holder;	      // of the turn; not to be followed
	unsigned turn;
	uint64_t turn_ns;
};

// ---- event_pool.c: the thread's
CUresult compute_event_take(struct vg_compute *compute, bool timing, CUevent *ret_event);
void compute_event_give(struct vg_compute *compute, bool timing, CUevent event);	// NULL is fine
CUresult compute_mark_take(struct vg_compute *compute, struct compute_mark **ret_mark); // with an event
void compute_mark_give(struct vg_compute *compute, struct compute_mark *mark);		// NULL is fine
void compute_pools_finish(struct vg_compute *compute);

// ---- quantum.c: the thread's
struct compute_quantum *compute_quantum_open(struct vg_compute *compute, struct compute_lane *lane,
					     struct vg_compute_unit *unit); // NULL: no memory
// Hands `count` launches over, or a job's next piece; fewer where it is cancelled or fails. Sets `handed` where nothing
// is left. `last`: somebody marks or closes next. False: the context failed.
bool compute_quantum_launch(struct compute_quantum *quantum, struct vg_execution *execution, struct compute_slot *slot,
			    unsigned count, uint64_t estimate, bool last);
bool compute_quantum_mark(struct compute_quantum *quantum);
bool compute_quantum_close(struct compute_quantum *quantum);
// Quanta of the one and of the other come one after the other.
bool compute_lanes_overlap(const struct compute_lane *lane, const struct compute_lane *other);

// ---- reap.c: the thread's. Looks what has ended, chained to *ends. False: the context failed.
bool compute_reap(struct vg_compute *compute, struct compute_lane *lane, struct vg_execution **ends,
		  bool *ret_progress);

// ---- failure.c: the context has failed: `result`. Sets the calling thread's last error; any thread, without the lock.
void compute_break(struct vg_compute *compute, CUresult result);

// ---- feed.c: the thread's, called and left under the lock. True: something was done.
bool compute_feed(struct vg_compute *compute, struct compute_lane *lane);
// No quantum takes more, so that what comes in other lanes comes behind them.
void compute_feed_close(struct vg_compute *compute);

// ---- lane.c
enum vg_status compute_lanes_create(struct vg_compute *compute);
void compute_lanes_destroy(struct vg_compute *compute);
void compute_lane_remove(struct vg_compute *compute, struct compute_lane *lane); // empty
// At the end of the list. NULL: no memory. Holds the context.
struct compute_lane *compute_lane_new(struct vg_compute *compute, struct vg_context *context, unsigned sms);
// Without work in flight.
void compute_place_drop(struct compute_place *place);
enum vg_status compute_slot_ready(struct vg_compute_unit *unit, struct compute_slot *slot, struct compute_lane *lane);

// ---- group.c: the thread's, under the lock
// Whether quanta run in groups or on the whole device now; builds the groups anew where shares have changed.
void compute_group(struct vg_compute *compute);
void compute_parts_destroy(struct compute_parts *parts);

// ---- group_plan.c
struct compute_plan {
	unsigned part_sms, parts, sms; // in: SMs of a smallest group, how many of them, SMs of the device
	double tolerance;	       // in: negative: of any size
	unsigned taken;		       // out: parts in groups
	bool rest;		       // out: some unit has none
	size_t extra;		       // out: who has the SMs that are in no part; SIZE_MAX: none of the groups
};
// How many parts each share gets; 0: time on the rest. False: not within the tolerance.
bool compute_plan_groups(struct compute_plan *plan, const double *shares, unsigned *ret_parts, size_t count);
