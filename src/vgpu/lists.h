// Replies turned into the public structs; strings stay in the reply, which a list keeps. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/vgpu.h"

// Each takes over `reply`, also on failure. PROTOCOL: the reply is not what was agreed.
enum vg_status vg_lists_vgpus(json_t *reply, struct vg_vgpu_list **ret_list);
enum vg_status vg_lists_devices(json_t *reply, struct vg_device_list **ret_list);
enum vg_status vg_lists_refusals(json_t *reply, struct vg_refusal_list **ret_list);
