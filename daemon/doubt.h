// Compares where evictable vGPUs are by the words of their processes, which can be false, with the memory that NVML
// reports for these processes. A vGPU is doubted if it counts as out, but more of its memory is on the device than its
// fixed part. Then it counts as on the device (residence.c). Main thread only.
#pragma once
#include "daemon/node.h"

// What one measurement has found for a vGPU.
struct doubt_measurement {
	uint64_t physical; // bytes on the device that NVML reports for the processes measured
	bool is_complete;  // all processes were measured
};
// Begins or ends to doubt the vGPU. Call it after each measurement.
void doubt_update(struct vgpu *vgpu, const struct doubt_measurement *measurement);
// Believes the vGPU again, because it was ordered to leave again.
void doubt_reset(struct vgpu *vgpu);
