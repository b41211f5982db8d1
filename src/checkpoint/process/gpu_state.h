// The CUDA side of a tree: off the GPU, and back. What a step leaves behind is read from the driver, never assumed. One
// thread; the driver's calls for several processes run beside each other.
#pragma once
#include "checkpoint/process/phase.h"
#include "checkpoint/process/tree.h"

// `phase` is ticked meanwhile. All at once, since a locked process may be what another one's work waits for. NOT_READY:
// not in time; then, and after any other failure, some are locked.
enum vg_status gpu_lock(const struct tree *tree, unsigned timeout_ms, struct phase *phase);
enum vg_status gpu_checkpoint(const struct tree *tree, struct phase *phase);
// `pairs` as vg_process_restore() has them.
enum vg_status gpu_restore(const struct tree *tree, const struct vg_process_gpu_pair *pairs, size_t count,
			   struct phase *phase);
enum vg_status gpu_unlock(const struct tree *tree);
// Back to running, from whatever state each is in, who has ended aside; who is stopped is sent SIGCONT. STATE: who is
// not, and what he is.
enum vg_status gpu_roll_back(const struct tree *tree);
