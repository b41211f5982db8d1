// Makes an object's own context current for driver calls, and restores the thread's current context. Any thread.
#pragma once
#include <stdbool.h>

#include "core/core.h"

struct core_scope {
	bool pushed;
};

// Makes the context current. In the usual case the context is current already, and this costs one cuCtxGetCurrent.
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

// Declares the variable for core_enter(). At the end of the block, makes the context current that was current before
// core_enter().
#define CORE_SCOPE __attribute__((cleanup(core_leave))) struct core_scope

// Sets the thread's capture mode to relaxed until the end of a block. In other modes, many driver calls would
// invalidate a capture of this thread, or a global capture of another thread. Releasing objects, and the library's own
// queries, must not do that.
struct core_relaxed {
	CUstreamCaptureMode mode; // the thread's previous mode, to be restored
	bool changed;
};

static inline struct core_relaxed core_relax(void)
{
	struct core_relaxed relaxed = {CU_STREAM_CAPTURE_MODE_RELAXED, false};

	// The driver is not loaded if the program uses only its own memory resource.
	relaxed.changed = core_driver && core_driver->cuThreadExchangeStreamCaptureMode(&relaxed.mode) == CUDA_SUCCESS;
	return relaxed;
}

static inline void core_relaxed_end(struct core_relaxed *relaxed)
{
	if (relaxed->changed)
		(void)core_driver->cuThreadExchangeStreamCaptureMode(&relaxed->mode);
}
#define CORE_RELAXED __attribute__((cleanup(core_relaxed_end), unused)) struct core_relaxed
