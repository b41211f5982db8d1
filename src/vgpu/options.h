// Checks the options of a vGPU, and makes requests from them. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/vgpu.h"

// Checks the options and copies them to *ret_all. Fails with INVALID if an option is invalid.
enum vg_status vg_options_check(const struct vg_vgpu_options *options, struct vg_vgpu_options *ret_all);
// Makes the request `op` with the options. NULL: a string is not UTF-8, or there is no memory.
json_t *vg_options_request(const char *op, const struct vg_vgpu_options *options);

// Requests to enter the vGPU `name`; if `name` is NULL, creates a vGPU with `options` and enters it.
// CUDA_VISIBLE_DEVICES must include the vGPU's GPU. The reply has "name", "ledger", "uuid" and "memory". Errors: see
// vg_vgpu_enter().
enum vg_status vg_enter_request(struct vg_node *node, const char *name, const struct vg_vgpu_options *options,
				json_t **ret_reply);
