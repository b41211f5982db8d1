// Limits the choice of a vGPU's GPU to what CUDA_VISIBLE_DEVICES of this process shows. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/vgpu.h"

// Sends the request `op`, which creates the vGPU that `options` describe. If the variable is set, a GPU that the
// options name must be visible; without a name the daemon chooses a visible GPU. INVALID (the GPU is not visible, or no
// GPU is), UNSUPPORTED (a MIG instance in the list), NVML, and the errors of the request.
enum vg_status vg_visible_request(struct vg_node *node, const char *op, const struct vg_vgpu_options *options,
				  json_t **ret_reply);
// Checks the GPU of the vGPU of that name; one that does not exist passes. INVALID, UNSUPPORTED, NVML, and the errors
// of the request.
enum vg_status vg_visible_check(struct vg_node *node, const char *vgpu);
