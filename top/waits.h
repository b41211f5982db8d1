// Which vGPUs wait, and for whom. One thread.
#pragma once
#include "top/model.h"

enum { WAITS_TEXT = 200 };

// Returns why a vGPU waits now; "": it does not wait. For its turn: "infer, batch", the vGPUs that have the GPU's time,
// the largest part first; with `has_parts` "infer 58 %, batch 20 %".
const char *waits_text(const struct model *model, const struct vg_vgpu_info *vgpu, bool has_parts,
		       char buffer[WAITS_TEXT]);
// Returns whether the vGPU's memory has left the GPU to make room for others, or waits to return.
bool waits_for_room(const struct vg_vgpu_info *vgpu);
// Returns the number of vGPUs that wait.
size_t waits_count(const struct model *model);
