// Ties the vGPUs of a job: one for each of its GPUs, with the same owner and the same job name. Main thread only.
#pragma once
#include "daemon/node.h"

// Returns whether both vGPUs belong to one job. A vGPU outside every job is in no job with itself.
bool job_is_same(const struct vgpu *vgpu, const struct vgpu *other);
// Returns a mask of the devices whose vGPUs have turns together with a vGPU on `device`: those of its job, if it has
// one, and of all jobs that share a device with them. `vgpu` may be new.
uint64_t job_tied_devices(const struct node *node, const struct vgpu *vgpu, size_t device);
// Returns the sum of the compute shares there, without that of `vgpu` and of its job. A job counts once.
unsigned int job_sum_shares(const struct node *node, const struct vgpu *vgpu, size_t device);
