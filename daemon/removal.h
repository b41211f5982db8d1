// Removes vGPUs after their programs have ended. Main thread only.
#pragma once
#include "daemon/node.h"

// Remove the vGPUs of `rm --force`, and ephemeral ones that no process uses any more.
void removal_sweep(struct node *node);
void removal_sweep_ephemeral(struct node *node);
// Kills the processes that have the vGPU's ledger mapped. A process that only started a program has not, and stays; so
// does a process that only a slot names.
void removal_kill_programs(struct vgpu *vgpu);
// Counts the killed processes whose memory is not released yet. It does not count dead ones whose memory descriptors in
// other processes keep, since these may stay open for ever.
int removal_count_ending(const struct vgpu *vgpu);
// Removes the vGPU, and publishes that.
void removal_drop(struct node *node, struct vgpu *vgpu);
