// Removes vGPUs whose programs have ended. Main thread only.
#pragma once
#include "daemon/node.h"

// Removes vGPUs that `virgate rm --force` is removing, and ephemeral vGPUs, once no process uses them any more.
void removal_sweep(struct node *node);
void removal_sweep_ephemeral(struct node *node);
// Kills the processes that have the vGPU's ledger mapped. A launcher that only started such a program has not mapped
// the ledger, and is not killed. A process that only a slot names is not killed either.
void removal_kill_programs(struct vgpu *vgpu);
// Counts the killed processes whose memory is not released yet. Does not count dead ones whose memory is kept only by
// descriptors in other processes, since these may stay open for ever.
int removal_count_ending(const struct vgpu *vgpu);
// Removes the vGPU, and publishes the claims without it.
void removal_drop(struct node *node, struct vgpu *vgpu);
