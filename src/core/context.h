// A context, as this room sees it.
#pragma once

#include "base/mutex.h"
#include "core/device.h"
#include "core/object.h"
#include "virgate/context.h"

struct vg_context {
	struct core_object object;
	struct vg_device *device;
	// Entered for the driver's calls. Of a green context it is the device's primary context, since a green
	// one may be current to one thread at a time; what makes work green are its streams.
	CUcontext handle;
	CUcontext identity;	    // as the program knows it
	CUgreenCtx green;	    // NULL: an ordinary context
	struct vg_mutex green_lock; // the driver does not serialise calls on a green context
	bool primary;		    // the device's primary context was retained, to be released
	bool borrowed;		    // nothing else is ours to destroy
};

// Of the program's thread or a stream: a context that somebody else made. `green` NULL for an ordinary one, whose
// handle is `identity`.
enum vg_status core_context_borrow(CUcontext identity, CUgreenCtx green, struct vg_context **ret_context);
