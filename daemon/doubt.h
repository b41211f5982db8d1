// Checks what the processes of evictable vGPUs report against NVML. By their reports, all memory of a vGPU that can
// move may be in the host. If NVML shows more memory on the device than the vGPU's fixed part, the vGPU is doubted: it
// counts as on the device (residence.c). Main thread only.
#pragma once
#include "daemon/node.h"

// What one measurement has found for a vGPU.
struct doubt_measurement {
	uint64_t physical; // bytes on the device that NVML reports for the processes measured
	bool is_complete;  // all processes were measured
};
// Begins or ends to doubt the vGPU. Call it after each measurement.
void doubt_update(struct vgpu *vgpu, const struct doubt_measurement *measurement);
// Ends the doubt, because the vGPU was newly ordered to leave the device.
void doubt_reset(struct vgpu *vgpu);
