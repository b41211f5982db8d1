// The usage of a job's vGPU as text for the job's comment. Any thread.
#pragma once
#include <stddef.h>

struct vg_vgpu_info;

enum { USAGE_TEXT = 256 };
// Writes "virgate: NODE GPU 0, 1.5 GiB of 8.0 GiB used at most, 12.3 s of GPU time, 2 requests refused".
void usage_describe(const struct vg_vgpu_info *vgpu, const char *node_name, char ret_text[USAGE_TEXT]);
