// Finds out which vGPUs belong to one job, and what they have in common. A job has one vGPU on each of its GPUs, all
// with the same owner and the same job name. Main thread only.
#pragma once
#include "daemon/node.h"

// Returns whether both vGPUs belong to one job. Returns false if they are in no job, even for twice the same vGPU.
bool job_is_same(const struct vgpu *vgpu, const struct vgpu *other);
// Returns a bit mask of the vGPU's device and of the devices of its job. The vGPU need not be in the list yet.
uint64_t job_devices(const struct node *node, const struct vgpu *vgpu);
// Returns whether the vGPU's job has a vGPU on each GPU that it asked for, counting this vGPU, which may be new.
bool job_is_complete(const struct node *node, const struct vgpu *vgpu);
// Marks the job of the vGPU as complete if it is. Call it for each new vGPU.
void job_note_complete(struct node *node, const struct vgpu *vgpu);
// Returns a bit mask of the devices that take their turns together with `device`: those of the vGPU's job, and those of
// all jobs that share a device with them. `vgpu` need not be in the list yet.
uint64_t job_tied_devices(const struct node *node, const struct vgpu *vgpu, size_t device);
// Returns the sum of the compute shares on the devices of job_tied_devices(), without those of `vgpu` and its job. A
// job counts once, however many vGPUs it has.
unsigned int job_sum_shares(const struct node *node, const struct vgpu *vgpu, size_t device);
