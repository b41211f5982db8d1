// Makes some context current for driver calls that need any: the thread's context, or a device's primary context. Any
// thread.
#pragma once
#include <stdbool.h>

#include "core/core.h"

struct vg_device;

struct core_some_context {
	struct vg_device *device; // NULL: nothing was retained
	bool pushed;
};

// Keeps the thread's current context. Without one, makes an active primary context current. If no primary context
// is active, creates that of the first device.
CUresult core_enter_some(struct core_some_context *some);
// Like core_enter_some(), but leaves the thread without a context if no primary context is active.
CUresult core_enter_active(struct core_some_context *some);
void core_leave_some(struct core_some_context *some);
