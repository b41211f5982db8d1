// Converts replies to the public structs. Their strings stay in the reply, which the list keeps. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/vgpu.h"

// Each consumes `reply`, also on failure. PROTOCOL: a field is missing or invalid.
enum vg_status vg_lists_vgpus(json_t *reply, struct vg_vgpu_list **ret_list);
enum vg_status vg_lists_devices(json_t *reply, struct vg_device_list **ret_list);
enum vg_status vg_lists_refusals(json_t *reply, struct vg_refusal_list **ret_list);
