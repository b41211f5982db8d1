// Keeps what a vGPU has used so far, for its owner and for the accounting of batch jobs. Main thread only.
#pragma once
#include "daemon/node.h"

// Reads the charge and the GPU time again. Called at each scan, and before a process is refunded.
void usage_note(struct vgpu *vgpu);
// Returns the GPU time of all programs since this daemon knows the vGPU, in nanoseconds.
uint64_t usage_gpu_ns(const struct vgpu *vgpu);
