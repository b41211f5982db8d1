// For driver calls that need any current context: the thread's, or the primary one of a device. Any thread.
#pragma once
#include <stdbool.h>

#include "core/core.h"

struct vg_device;

struct core_some_context {
	struct vg_device *device; // NULL: nothing was retained
	bool pushed;
};

// Keeps the thread's current context. Without one, makes an active primary context current. If no primary context
// is active, creates the first device's.
CUresult core_enter_some(struct core_some_context *some);
// The same, but stays without a context if no primary context is active.
CUresult core_enter_active(struct core_some_context *some);
void core_leave_some(struct core_some_context *some);
