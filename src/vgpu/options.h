// A vGPU's options: checked, and as a request. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/vgpu.h"

enum vg_status vg_options_take(const struct vg_vgpu_options *options, struct vg_vgpu_options *ret_all);
// NULL: a text is not UTF-8, or there is no memory.
json_t *vg_options_request(const char *op, const struct vg_vgpu_options *options);

// Enters the vGPU `name`, or one that is made as `options` say if `name` is NULL, within what CUDA_VISIBLE_DEVICES
// shows. The reply has "name", "ledger", "uuid" and "memory". As vg_vgpu_enter().
enum vg_status vg_enter_request(struct vg_node *node, const char *name, const struct vg_vgpu_options *options,
				json_t **ret_reply);
