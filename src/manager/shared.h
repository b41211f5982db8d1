// Makes virtual GPUs known to the daemon. Any thread.
#pragma once
#include "manager/manager.h"

// Creates the vGPU at the daemon too, and from then on charges its budget to the ledger. Fails with STATE (this program
// runs inside a vGPU, or the manager has no connection to the daemon), EXISTS, LIMIT, DENIED, NO_DAEMON, SYSTEM and
// others.
enum vg_status shared_begin(struct vg_virtual_gpu *vgpu, uint64_t limit);
// Refunds what this process has charged, and asks the daemon to remove the vGPU if no other program is inside.
void shared_end(struct vg_virtual_gpu *vgpu);
// Changes the limit and the share; 0 leaves one unchanged. Fails like vg_vgpu_set().
enum vg_status shared_set(struct vg_virtual_gpu *vgpu, uint64_t limit, double share);
