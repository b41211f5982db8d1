// Operations of virtual GPUs: plans that become work of their units. Any thread.
#pragma once
#include "manager/manager.h"
#include "operation/operation.h"

// Scratch memory of the vGPU's own: one piece for each virtual stream, which its operations use one after the other.
struct manager_workspace {
	atomic_uint references;
	vg_address address;
	size_t size;
	struct manager_workspace *next; // of those that nobody uses any more
};
// Gives all of them back. The vGPU's unit is closed by then, and nobody is inside.
void operations_end(struct vg_virtual_gpu *vgpu);
// The manager's kernels and libraries.
void operations_destroy(struct vg_manager *manager);
