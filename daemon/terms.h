// Compute shares as requests, files and listings have them.
#pragma once
#include "daemon/request.h"

// Reads "share", "share_limit" and "class" of a request; the second reads the share alone, and leaves it where there is
// none. NULL, or the refusal.
json_t *terms_take(const struct request *request, struct turn_terms *ret_terms);
json_t *terms_take_share(const struct request *request, unsigned int *ret_share);
// Whether the share fits beside those of the device's other vGPUs. NULL, or the refusal.
json_t *terms_admit(const struct request *request, size_t device, const struct turn_terms *terms,
		    const struct vgpu *instead_of);
// The same fields and the mode, of a file or an answer. False: there is no sense in them.
void terms_write(json_t *object, const struct turn_terms *terms);
bool terms_read(const json_t *object, struct turn_terms *ret_terms);
// Opens the gate of a vGPU while a process of it is locked for a checkpoint, for so many "milliseconds"; 0: no longer.
json_t *terms_exempt(const struct request *request);
// What the vGPU got of its device's time; null: it takes no part in turns.
json_t *terms_list_turns(const struct node *node, const struct vgpu *vgpu);
