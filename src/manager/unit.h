// Manages the compute unit of a virtual GPU. Any thread. Call between manager_enter() and manager_leave(), except
// unit_begin() and unit_end().
#pragma once
#include "compute/compute.h"
#include "manager/manager.h"

// Creates the compute unit. Fails with LIMIT, INVALID, CLOSED, NO_MEMORY or DRIVER.
enum vg_status unit_begin(struct vg_virtual_gpu *vgpu, const struct vg_virtual_gpu_options *options);
// unit_shut() makes the compute unit accept no more work, cancels waiting work, and makes waiting calls return. If
// there is work and `instead` is not NULL, it changes nothing and fails with BUSY; the error names `instead` as the
// function that cancels work. unit_end() waits until running work has ended.
enum vg_status unit_shut(struct vg_virtual_gpu *vgpu, const char *instead);
void unit_end(struct vg_virtual_gpu *vgpu);

// Begin and end a submission to a stream; `status` is the result of the submission. The stream becomes active unless
// the submission fails. Same errors as vg_virtual_gpu_execute().
enum vg_status unit_begin_submit(struct vg_virtual_gpu *vgpu, unsigned stream);
enum vg_status unit_end_submit(struct vg_virtual_gpu *vgpu, unsigned stream, enum vg_status status);
