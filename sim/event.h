// Events (event.c). Any thread.
#pragma once

#include "op.h"

struct region_event;

enum { SIM_EVENT_MAGIC = 0x45564e32 };

struct sim_event {
	_Atomic uint32_t magic;
	unsigned flags;
	struct sim_context *context;
	pthread_mutex_t lock;
	struct sim_mark *mark;	     // of the latest record; NULL before the first
	void *capture;		     // a struct sim_recorded of capture.c: recorded in a capture
	struct region_event *shared; // of an interprocess event: in the region
	uint32_t shared_index;
	_Atomic int references; // the handle, operations
	struct sim_event *next_free;
};
struct sim_event *sim_event_new(struct sim_context *context, unsigned flags);
CUresult sim_event_get(CUevent handle, struct sim_event **ret_event);
// Makes a new mark the event's latest record. Returns a reference.
struct sim_mark *sim_event_arm(struct sim_event *event);
// Returns a reference to the mark of the latest record; NULL: never recorded.
struct sim_mark *sim_event_last_mark(struct sim_event *event);

// Records and waits. As nodes of a graph they are cloned, then armed when the graph is launched.
struct sim_event_op {
	struct sim_op op;
	struct sim_event *event;
	struct sim_mark *mark; // record: armed when submitted, or by run; wait: what to wait for
	unsigned flags;
};
extern const struct sim_op_class sim_event_record_class, sim_event_wait_class;
struct sim_event_op *sim_event_op_new(const struct sim_op_class *class, struct sim_context *context,
				      struct sim_event *event);
