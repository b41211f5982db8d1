// Declares events (event.c). Any thread.
#pragma once

#include "op.h"

struct region_event;

enum { SIM_EVENT_MAGIC = 0x45564e32 };

struct sim_event {
	_Atomic uint32_t magic;
	unsigned flags;
	struct sim_context *context;
	pthread_mutex_t lock;
	struct sim_mark *mark; // the mark (mark.h) of the latest record; NULL: never recorded
	// The struct sim_recorded (capture_state.h) of an event that was recorded in a capture; otherwise NULL.
	void *capture;
	struct region_event *shared; // state of an interprocess event, which processes share; otherwise NULL
	uint32_t shared_index;
	_Atomic int references; // references of the handle and of operations
	struct sim_event *next_free;
};
struct sim_event *sim_event_new(struct sim_context *context, unsigned flags);
CUresult sim_event_get(CUevent handle, struct sim_event **ret_event);
// Creates the mark (mark.h) of a new record of the event. Later waits for the event wait for this mark. Returns a
// reference to the mark.
struct sim_mark *sim_event_arm(struct sim_event *event);
// Returns a reference to the mark of the latest record. NULL: the event was never recorded.
struct sim_mark *sim_event_last_mark(struct sim_event *event);

// An operation that records an event or waits for one. A graph node has such an operation as a template. Executable
// graphs have clones of the template.
struct sim_event_op {
	struct sim_op op;
	struct sim_event *event;
	struct sim_mark *mark; // the mark (mark.h) that a record finishes, or for which a wait waits
	unsigned flags;
};
extern const struct sim_op_class sim_event_record_class, sim_event_wait_class;
struct sim_event_op *sim_event_op_new(const struct sim_op_class *class, struct sim_context *context,
				      struct sim_event *event);
