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

// struct core_scope CORE_SCOPE; leaves by itself.
#define CORE_SCOPE __attribute__((cleanup(core_leave))) struct core_scope
