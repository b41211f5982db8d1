// Finds out which vGPUs wait, and for which other vGPUs. One thread.
#pragma once
#include "top/model.h"

enum { WAITS_TEXT = 200 };

// Describes for what a vGPU waits now; "": it does not wait. If it waits for its turn, the text names the vGPUs that
// use the GPU's time, the largest part first: "infer, batch". With `has_parts`, also their parts: "infer 58 %, batch 20
// %".
const char *waits_text(const struct model *model, const struct vg_vgpu_info *vgpu, bool has_parts,
		       char buffer[WAITS_TEXT]);
// Returns whether the vGPU's memory has left the GPU to make room for others, or waits to return.
bool waits_for_room(const struct vg_vgpu_info *vgpu);
// Returns the number of vGPUs that wait.
size_t waits_count(const struct model *model);
