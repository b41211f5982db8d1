// Converts the daemon's replies to the public structs. The list keeps the reply, which owns the strings. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/vgpu.h"

// These functions consume `reply`, also on failure. They fail with PROTOCOL if a field is missing or invalid.
enum vg_status vg_lists_vgpus(json_t *reply, struct vg_vgpu_list **ret_list);
enum vg_status vg_lists_devices(json_t *reply, struct vg_device_list **ret_list);
enum vg_status vg_lists_refusals(json_t *reply, struct vg_refusal_list **ret_list);
