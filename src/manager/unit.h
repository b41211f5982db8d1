// A virtual GPU's part of the scheduler. Any thread; inside the vGPU's gate, but for its beginning and end.
#pragma once
#include "compute/compute.h"
#include "manager/manager.h"

// LIMIT, INVALID, CLOSED, NO_MEMORY, DRIVER.
enum vg_status unit_begin(struct vg_virtual_gpu *vgpu, const struct vg_virtual_gpu_options *options);
// No more work comes, what there is is cancelled, and calls that wait for it return; BUSY as compute_shut(), and
// nothing has changed then. unit_end(): until what runs has ended.
enum vg_status unit_shut(struct vg_virtual_gpu *vgpu, const char *instead);
void unit_end(struct vg_virtual_gpu *vgpu);

// Before work is submitted to the stream, and after that with what came of it: the stream becomes active, and is not
// left so by a refusal. As vg_virtual_gpu_execute().
enum vg_status unit_take(struct vg_virtual_gpu *vgpu, unsigned stream);
enum vg_status unit_give(struct vg_virtual_gpu *vgpu, unsigned stream, enum vg_status status);
