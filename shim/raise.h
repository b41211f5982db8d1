// Raises the charge of a context before a launch that makes the driver allocate local memory in it (shim/local.h). Any
// thread.
#pragma once
#include <stdatomic.h>

#include "shim/local.h"

#define SHIM_LAUNCH_WATCHED __builtin_expect(atomic_load_explicit(&shim_launch_watched, memory_order_relaxed), 0)

struct shim_raise { // the context whose charge one launch has raised, and by how many bytes
	CUcontext context;
	uint64_t bytes;
};

// Charges the local memory that a launch makes the driver allocate. Call it before the launch. If `context` is NULL,
// the launch runs in the stream's own context.
CUresult shim_raise_for_launch(enum vg_entry entry, CUfunction function, CUstream stream, CUcontext context,
			       struct shim_raise *ret_raise);
// Refunds the charge if the launch failed. Call it after the launch. Returns `result`.
CUresult shim_raise_finish(CUresult result, const struct shim_raise *raise);
// Charges what the launch of a graph's kernel node will need. Call it before the node is added or changed. At the
// launch it is too late, because the driver does not list all nodes then. Nodes in the body of a conditional node are
// missing. If another graph has updated the executable graph, the nodes of that graph are missing, too.
CUresult shim_raise_for_kernel_node(enum vg_entry entry, CUfunction function, CUcontext context);
// Charges what the launch of a graph node of any type will need, as shim_raise_for_kernel_node() does.
CUresult shim_raise_for_node(enum vg_entry entry, const CUgraphNodeParams *parameters);
