// Marks: points in time that threads and operations can wait for (mark.c). Any thread.
#pragma once

#include "sim.h"

struct region_event;

struct sim_mark {
	_Atomic int references;
	_Atomic uint32_t done;	    // futex
	_Atomic uint64_t time_ns;   // device time at which the work before the mark ended
	struct region_event *event; // an interprocess event, or NULL
	uint32_t event_value;	    // the number of the event's record that this mark represents
	bool foreign;		    // true: another process recorded the event
};
struct sim_mark *sim_mark_new(void);
struct sim_mark *sim_mark_ref(struct sim_mark *mark); // NULL: returns NULL
void sim_mark_unref(struct sim_mark *mark);	      // NULL: does nothing
void sim_mark_finish(struct sim_mark *mark);
void sim_mark_finish_at(struct sim_mark *mark, uint64_t time_ns);
bool sim_mark_is_done(const struct sim_mark *mark);
// Waits until the mark is done. `cancel` (of a context; may be NULL) ends the wait early at SIM_CANCEL_WAITS; for a
// mark of another process, also at SIM_CANCEL_WORK.
void sim_mark_wait(const struct sim_mark *mark, const atomic_int *cancel);
