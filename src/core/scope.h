// A driver call in an object's own context, which leaves the thread's current context as it was.
#pragma once
#include <stdbool.h>

#include "core/core.h"

struct core_scope {
	bool pushed;
};

// Costs one cuCtxGetCurrent when the context is current already, as it mostly is.
static inline CUresult core_enter(struct core_scope *scope, CUcontext context)
{
	CUcontext current;

	scope->pushed = false;
	CUresult r = core_driver->cuCtxGetCurrent(&current);
	if (r || current == context)
		return r;
	r = core_driver->cuCtxPushCurrent_v2(context);
	scope->pushed = r == CUDA_SUCCESS;
	return r;
}

static inline void core_leave(struct core_scope *scope)
{
	CUcontext popped;

	if (scope->pushed)
		core_driver->cuCtxPopCurrent_v2(&popped);
}

// Ends by itself.
#define CORE_SCOPE __attribute__((cleanup(core_leave))) struct core_scope

// Many a call spoils a capture that the thread has begun, or another one's global one, with which it has nothing to do.
// Giving back what a program no longer wants is no reason for that, nor what the library asks for itself.
struct core_relaxed {
	CUstreamCaptureMode mode; // the thread's before
	bool changed;
};

static inline struct core_relaxed core_relax(void)
{
	struct core_relaxed relaxed = {CU_STREAM_CAPTURE_MODE_RELAXED, false};

	// A program's own memory resource may do without the driver.
	relaxed.changed = core_driver && core_driver->cuThreadExchangeStreamCaptureMode(&relaxed.mode) == CUDA_SUCCESS;
	return relaxed;
}

static inline void core_relaxed_end(struct core_relaxed *relaxed)
{
	if (relaxed->changed)
		(void)core_driver->cuThreadExchangeStreamCaptureMode(&relaxed->mode);
}
#define CORE_RELAXED __attribute__((cleanup(core_relaxed_end), unused)) struct core_relaxed
