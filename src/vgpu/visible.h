// Restricts the GPU of a vGPU to those that CUDA_VISIBLE_DEVICES of this process makes visible. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/vgpu.h"

// Sends the request `op`, which creates the vGPU that `options` describe. If CUDA_VISIBLE_DEVICES is set, the GPU that
// the options name must be visible. If the options name none, the daemon chooses a visible GPU. Fails with INVALID (the
// GPU is not visible, or no GPU is), UNSUPPORTED (a MIG instance in the list), NVML, or an error of the request. If
// `job` is not NULL, the vGPU is one of that job, and the options may name several GPUs to choose from, with commas.
enum vg_status vg_visible_request(struct vg_node *node, const char *op, const struct vg_vgpu_options *options,
				  const char *job, json_t **ret_reply);
// Checks that the GPU of the vGPU `vgpu` is visible. Accepts a vGPU that does not exist. Fails with INVALID,
// UNSUPPORTED, NVML, or an error of the request.
enum vg_status vg_visible_check(struct vg_node *node, const char *vgpu);
