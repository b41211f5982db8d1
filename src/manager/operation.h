// Runs operations of virtual GPUs: turns plans into work of compute units. Any thread.
#pragma once
#include "manager/manager.h"
#include "operation/operation.h"

// Scratch memory of a vGPU: one block for each virtual stream, which the stream's operations use one after another.
struct manager_workspace {
	atomic_uint references;
	vg_address address;
	size_t size;
	struct manager_workspace *next; // next in the list of unused workspaces
};
// Frees all workspaces. Call after the vGPU's compute unit is closed, when no call on the vGPU is in progress.
void operations_end(struct vg_virtual_gpu *vgpu);
// Destroys the manager's kernels and libraries.
void operations_destroy(struct vg_manager *manager);
