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
	struct sim_mark *mark; // mark of the latest record; NULL before the first record
	// A struct sim_recorded of capture.c if the event was recorded in a capture; or NULL.
	void *capture;
	struct region_event *shared; // the region's entry for an interprocess event
	uint32_t shared_index;
	_Atomic int references; // references of the handle and of operations
	struct sim_event *next_free;
};
struct sim_event *sim_event_new(struct sim_context *context, unsigned flags);
CUresult sim_event_get(CUevent handle, struct sim_event **ret_event);
// Creates a mark for a new record of the event. Returns a reference.
struct sim_mark *sim_event_arm(struct sim_event *event);
// Returns a reference to the mark of the latest record; NULL: never recorded.
struct sim_mark *sim_event_last_mark(struct sim_event *event);

// Records and waits as operations. A graph clones its nodes' operations, and arms them when it is launched.
struct sim_event_op {
	struct sim_op op;
	struct sim_event *event;
	struct sim_mark *mark; // record: armed when submitted, or when run; wait: the mark to wait for
	unsigned flags;
};
extern const struct sim_op_class sim_event_record_class, sim_event_wait_class;
struct sim_event_op *sim_event_op_new(const struct sim_op_class *class, struct sim_context *context,
				      struct sim_event *event);
