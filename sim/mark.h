// Declares marks, objects that threads and operations can wait for (mark.c). A mark is done when all work before it has
// ended. Any thread.
#pragma once

#include "sim.h"

struct region_event;

struct sim_mark {
	_Atomic int references;
	_Atomic uint32_t done;	    // futex
	_Atomic uint64_t time_ns;   // device time at which the mark was done
	struct region_event *event; // the interprocess event whose record this mark stands for, or NULL
	uint32_t event_value;	    // number of the record that this mark stands for
	bool foreign;		    // another process recorded the event
};
struct sim_mark *sim_mark_new(void);
struct sim_mark *sim_mark_ref(struct sim_mark *mark); // NULL: returns NULL
void sim_mark_unref(struct sim_mark *mark);	      // NULL: does nothing
void sim_mark_finish(struct sim_mark *mark);
void sim_mark_finish_at(struct sim_mark *mark, uint64_t time_ns);
bool sim_mark_is_done(const struct sim_mark *mark);
// Waits until the mark is done. `cancel` may be NULL, or point to a context's member `cancel`. The wait ends early if
// *cancel becomes SIM_CANCEL_WAITS. If the mark is of an event that another process recorded, SIM_CANCEL_WORK also ends
// the wait.
void sim_mark_wait(const struct sim_mark *mark, const atomic_int *cancel);
