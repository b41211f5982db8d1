// An event, as this room sees it.
#pragma once
#include "core/stream.h"
#include "virgate/event.h"

struct vg_event {
	struct core_object object;
	struct vg_context *context; // held
	CUevent handle;
	unsigned flags;	      // CU_EVENT_…
	atomic_bool recorded; // by this object's calls
};

// Takes the handle over if it succeeds.
enum vg_status core_event_wrap(struct vg_context *context, CUevent handle, unsigned flags, struct vg_event **ret_event);
