// Local memory: the first launch of a kernel whose threads need more of it than any before makes the
// driver take that for every thread the device can hold. Such kernels are noted when they are looked
// up, and their launches are watched until the context holds enough. Any thread.
#pragma once
#include "shim/charge.h"

// A kernel that is known may take memory when it is launched: nothing is looked for before.
extern _Atomic bool shim_launch_watched;

struct shim_raise { // by a launch on its way
	CUcontext context;
	uint64_t bytes;
};

// What a thread of the function, or kernel, needs, in bytes.
void shim_local_note(uint64_t function, uint64_t local);
// A kernel that cannot be asked, or loaded, before a context is there.
void shim_local_defer(CUkernel kernel);
// Before a launch: charges what it makes the driver take. `context` NULL: the stream's.
CUresult shim_local_raise(enum vg_entry entry, CUfunction function, CUstream stream, CUcontext context,
			  struct shim_raise *ret_raise);
// After it: a launch that failed took nothing.
CUresult shim_local_launched(CUresult result, const struct shim_raise *raise);
// Before a node of a graph is made or changed: the same for a kernel's.
CUresult shim_local_node(enum vg_entry entry, const CUgraphNodeParams *parameters);
// A context was made, or gone, or its stack limit is another one.
void shim_local_contexts(int change);
