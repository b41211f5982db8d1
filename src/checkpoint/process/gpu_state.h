// Has the driver lock, checkpoint, restore and unlock the processes of a tree. The state of a process is always read
// from the driver. One thread; the driver's calls for several processes run at the same time.
#pragma once
#include "checkpoint/process/phase.h"
#include "checkpoint/process/tree.h"

// Locks all processes at the same time, since the work of one may wait for another. Calls phase_tick(). NOT_READY: work
// did not end in time. After a failure, some processes may be locked.
enum vg_status gpu_lock(const struct tree *tree, unsigned timeout_ms, struct phase *phase);
enum vg_status gpu_checkpoint(const struct tree *tree, struct phase *phase);
// Restores all processes to the GPU. `pairs`: see vg_process_restore().
enum vg_status gpu_restore(const struct tree *tree, const struct vg_process_gpu_pair *pairs, size_t count,
			   struct phase *phase);
enum vg_status gpu_unlock(const struct tree *tree);
// Makes each process run again, from any state. Skips processes that have ended, and continues stopped ones.
// STATE: a process is not running; the error says its state.
enum vg_status gpu_roll_back(const struct tree *tree);
