// Enters the vGPUs of a job, one on each of its GPUs. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/vgpu.h"

// Creates the vGPUs of the job that `options` describe, and enters them. `options->gpus` is 2 or more. Stores that many
// replies, each like that of vg_enter_request(), in the order of the GPUs. On failure stores nothing. The daemon then
// removes the vGPUs that were created when this process ends.
enum vg_status vg_job_enter(struct vg_node *node, const struct vg_vgpu_options *options, json_t **ret_replies);
