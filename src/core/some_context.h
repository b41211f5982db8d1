// For calls that want a context current, whichever it is: the thread's own, or the primary one of a device.
#pragma once
#include <stdbool.h>

#include "core/core.h"

struct vg_device;

struct core_some_context {
	struct vg_device *device; // NULL: nothing was retained
	bool pushed;
};

// Where the thread has no context: an active primary one; if there is none, the first device's is made, or, without
// `make`, none is entered.
CUresult core_enter_some(struct core_some_context *some, bool make);
void core_leave_some(struct core_some_context *some);
