// Declares the context object. Any thread.
#pragma once

#include "base/mutex.h"
#include "core/device.h"
#include "core/object.h"
#include "virgate/context.h"

struct vg_context {
	struct core_object object;
	struct vg_device *device;
	// The context that is made current for driver calls. For a green context this is the device's primary context,
	// since only one thread can have a green context current. The streams of a green context limit the work to its
	// SMs.
	CUcontext handle;
	CUcontext identity;	    // the handle that the program sees
	CUgreenCtx green;	    // NULL: not a green context
	struct vg_mutex green_lock; // around driver calls on `green`, which the driver does not serialise
	bool primary;		    // the device's primary context was retained, and must be released
	bool borrowed;		    // the creator of the context destroys it, not this object
};

// Creates the object of a context that the program created itself. `green` is NULL if the context is not a green one;
// `identity` is the handle that the program sees.
enum vg_status core_context_borrow(CUcontext identity, CUgreenCtx green, struct vg_context **ret_context);
