// Limits the choice of a vGPU's GPU to what CUDA_VISIBLE_DEVICES of this process shows. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/vgpu.h"

// Sends `op`, which makes the vGPU that `options` describe. Where the variable is set, a GPU that the options name must
// be visible; without a name the daemon chooses among the visible ones. INVALID (a GPU that is not visible, or none
// is), UNSUPPORTED (a MIG instance in the list), NVML, and what the request may return.
enum vg_status vg_visible_request(struct vg_node *node, const char *op, const struct vg_vgpu_options *options,
				  json_t **ret_reply);
// Checks the GPU of the vGPU of that name; one that does not exist passes. INVALID, UNSUPPORTED, NVML, and what asking
// the daemon may return.
enum vg_status vg_visible_check(struct vg_node *node, const char *vgpu);
