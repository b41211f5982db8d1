// The context object. Any thread.
#pragma once

#include "base/mutex.h"
#include "core/device.h"
#include "core/object.h"
#include "virgate/context.h"

struct vg_context {
	struct core_object object;
	struct vg_device *device;
	// Made current for driver calls. For a green context this is the device's primary context, since a green
	// context can be current to one thread only; its streams are what limits the work to its SMs.
	CUcontext handle;
	CUcontext identity;	    // the handle that the program sees
	CUgreenCtx green;	    // NULL: an ordinary context
	struct vg_mutex green_lock; // around driver calls on `green`, which the driver does not serialise
	bool primary;		    // the device's primary context was retained and is to be released
	bool borrowed;		    // destroyed by its creator, not by this object
};

// Wraps a context that the program created itself. `green` is NULL for an ordinary context, whose handle is `identity`.
enum vg_status core_context_borrow(CUcontext identity, CUgreenCtx green, struct vg_context **ret_context);
