// Virtual GPUs that the node's daemon knows as well. Any thread.
#pragma once
#include "manager/manager.h"

// Registers it, and charges its budget to the ledger from here on. STATE (this program runs inside a vGPU, or the
// manager has no node), EXISTS, LIMIT, DENIED, NO_DAEMON, SYSTEM, …
enum vg_status shared_begin(struct vg_virtual_gpu *vgpu, uint64_t limit);
// Gives back what is charged in this process's name, and takes the vGPU off the daemon's list if nobody else is inside.
void shared_end(struct vg_virtual_gpu *vgpu);
// 0 leaves a figure as it is. As vg_vgpu_set().
enum vg_status shared_set(struct vg_virtual_gpu *vgpu, uint64_t limit, double share);
