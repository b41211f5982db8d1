// Checks a vGPU's options, and makes requests of them. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/vgpu.h"

// Copies the options if they are valid. INVALID.
enum vg_status vg_options_check(const struct vg_vgpu_options *options, struct vg_vgpu_options *ret_all);
// Makes the request. NULL: a text is not UTF-8, or out of memory.
json_t *vg_options_request(const char *op, const struct vg_vgpu_options *options);

// Enters the vGPU `name`; if `name` is NULL, creates one with `options`. Its GPU must be in CUDA_VISIBLE_DEVICES. The
// reply has "name", "ledger", "uuid" and "memory". Errors: as vg_vgpu_enter().
enum vg_status vg_enter_request(struct vg_node *node, const char *name, const struct vg_vgpu_options *options,
				json_t **ret_reply);
