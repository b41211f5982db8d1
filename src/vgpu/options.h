// A vGPU's options: checked, and as a request. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/vgpu.h"

enum vg_status vg_options_take(const char *function, const struct vg_vgpu_options *options,
			       struct vg_vgpu_options *ret_all);
// NULL: a text is not UTF-8, or there is no memory.
json_t *vg_options_request(const char *op, const struct vg_vgpu_options *options);
