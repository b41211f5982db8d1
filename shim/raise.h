// Raises a context's charge for local memory before a launch that makes the driver allocate it (shim/local.h). Any
// thread.
#pragma once
#include <stdatomic.h>

#include "shim/local.h"

#define SHIM_LAUNCH_WATCHED                                                                                            \
	__builtin_expect(atomic_load_explicit(&shim_launch_watched, memory_order_relaxed), 0)

struct shim_raise { // by a launch in progress
	CUcontext context;
	uint64_t bytes;
};

// Before a launch: charges the local memory that the launch makes the driver allocate. context: NULL for the stream's.
CUresult shim_raise_for_launch(enum vg_entry entry, CUfunction function, CUstream stream, CUcontext context,
			       struct shim_raise *ret_raise);
// After the launch: refunds the charge if the launch failed. Returns `result`.
CUresult shim_raise_finish(CUresult result, const struct shim_raise *raise);
// Before a kernel node of a graph is added or changed, charges what its launch will need. Later is too late: the body
// of a conditional node, or a graph from which an executable one is updated, cannot be searched.
CUresult shim_raise_for_kernel_node(enum vg_entry entry, CUfunction function, CUcontext context);
// Does the same for a node of any type.
CUresult shim_raise_for_node(enum vg_entry entry, const CUgraphNodeParams *parameters);
