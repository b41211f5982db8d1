// Virtual GPUs that the node's daemon also knows. Any thread.
#pragma once
#include "manager/manager.h"

// Registers the vGPU with the daemon, and charges its budget to the ledger from here on. STATE (this program runs
// inside a vGPU, or the manager has no node), EXISTS, LIMIT, DENIED, NO_DAEMON, SYSTEM, …
enum vg_status shared_begin(struct vg_virtual_gpu *vgpu, uint64_t limit);
// Refunds what this process has charged, and asks the daemon to remove the vGPU if no other program is inside.
void shared_end(struct vg_virtual_gpu *vgpu);
// Changes the limit and the share; 0: unchanged. Fails like vg_vgpu_set().
enum vg_status shared_set(struct vg_virtual_gpu *vgpu, uint64_t limit, double share);
