// Declares the event object. Any thread.
#pragma once
#include "core/stream.h"
#include "virgate/event.h"

struct vg_event {
	struct core_object object;
	struct vg_context *context; // owns a reference
	CUevent handle;
	unsigned flags;	      // CU_EVENT_…
	atomic_bool recorded; // the event was recorded at least once by a call on this object
};

// Creates the object of a driver's event. On success the object owns the event.
enum vg_status core_event_wrap(struct vg_context *context, CUevent handle, unsigned flags, struct vg_event **ret_event);
