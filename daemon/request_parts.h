// What the files of the verbs `create`, `enter` and `set` have in common. One thread.
#pragma once
#include "base/size.h"
#include "daemon/save.h"

// request_fields.c: each returns NULL, or a refusal.
json_t *take_memory(const struct request *request, uint64_t *ret_memory);
// Without a size, a share of the GPU's time brings the same part of its memory.
json_t *take_memory_or_part(const struct request *request, struct vgpu *wanted);
json_t *take_owner(const struct request *request, uid_t *ret_owner);

// request_device.c: reads the GPU, the mode and the memory of a vGPU that has the other terms and its owner. If the
// request leaves the GPU open, it is one where the vGPU fits and can be entered now, of several the one with the most
// memory left. NULL, or a refusal.
json_t *take_device(const struct request *request, struct vgpu *wanted);

// request_room.c
enum { FIGURE = VG_SIZE_TEXT + 32 };
// "8.0 GiB", and its bytes too where the figure that it is compared with would read the same.
const char *figure(uint64_t bytes, uint64_t beside, char text[FIGURE]);
// Room for `memory` and `terms` on the device, for a new vGPU or in place of what `instead_of` has: NULL, or a refusal.
json_t *admit_new(const struct request *request, const struct vgpu *wanted);
json_t *admit_again(const struct request *request, const struct vgpu *vgpu, uint64_t memory,
		    const struct turn_terms *terms);
// A refusal of a limit that no context fits in; NULL: one does.
json_t *too_small(const struct request *request, size_t device, uid_t owner, uint64_t memory);

// request_create.c
json_t *answer_create(const struct request *request);
json_t *answer_enter(const struct request *request);
// Whether the vGPU can be entered or changed now. If not, *ret_answer is the refusal, or NULL: the answer comes later, when
// a search or a write to the disk has ended.
bool can_be_used(const struct request *request, struct vgpu *vgpu, json_t **ret_answer);

// request_set.c
json_t *answer_set(const struct request *request);
