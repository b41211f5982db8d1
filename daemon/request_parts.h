// What the files of the verbs `create`, `enter`, `set` and `suspend` have in common. Main thread only.
#pragma once
#include "base/size.h"
#include "daemon/request.h"

// request_fields.c: each reads fields of the request, and returns NULL or a refusal.
json_t *read_memory(const struct request *request, uint64_t *ret_memory);
// Without a size, a compute share brings the same part of the GPU's memory.
json_t *read_memory_or_part(const struct request *request, struct vgpu *wanted);
json_t *read_owner(const struct request *request, uid_t *ret_owner);

// request_terms.c: read "share", "share_limit" and "class", or the share alone, which stays unchanged if the request
// has none. Return NULL or a refusal.
json_t *read_terms(const struct request *request, struct turn_terms *ret_terms);
json_t *read_share(const struct request *request, unsigned int *ret_share);
// Checks whether the share fits beside those of the device's other vGPUs. Returns NULL or a refusal.
json_t *admit_share(const struct request *request, size_t device, const struct turn_terms *terms,
		    const struct vgpu *instead_of);

// request_eviction.c
// Returns the field "evictable", which the choice of a GPU needs.
bool read_evictable(const struct request *request);
// Reads "evictable", "swap", "fixed" and "idle_suspend", after the memory of the vGPU was set. Returns NULL or a
// refusal.
json_t *read_eviction(const struct request *request, struct vgpu *wanted);

// request_device.c: reads the GPU, the mode and the memory of a vGPU that has its other terms and its owner. If the
// request allows several GPUs, chooses one where the vGPU fits and can be entered now, of these the one with most
// memory left. Returns NULL or a refusal.
json_t *read_device(const struct request *request, struct vgpu *wanted);

// request_admission.c
enum { FIGURE = VG_SIZE_TEXT + 32 };
// Writes "8.0 GiB", and also the bytes if `beside` would read the same.
const char *write_figure(uint64_t bytes, uint64_t beside, char text[FIGURE]);
// Check the room on the device, for a new vGPU, or for a vGPU with another memory and other terms. Return NULL or a
// refusal.
json_t *admit_new(const struct request *request, const struct vgpu *wanted);
json_t *admit_again(const struct request *request, const struct vgpu *vgpu, uint64_t memory,
		    const struct turn_terms *terms);
// Returns a refusal of a limit that is too small for a context, or NULL.
json_t *refuse_too_small(const struct request *request, size_t device, uid_t owner, uint64_t memory);

// request_create.c
// Returns the refusal for a vGPU whose ledger is damaged.
json_t *refuse_damaged(const struct vgpu *vgpu);
// Returns whether the vGPU can be entered or changed now. If not, *ret_answer is the refusal, or NULL if the request
// must wait for a search or a write to the disk.
bool can_be_used(const struct request *request, struct vgpu *vgpu, json_t **ret_answer);

// Answers to the verbs, each in the file of its name.
json_t *answer_create(const struct request *request);
json_t *answer_enter(const struct request *request);
json_t *answer_set(const struct request *request);
json_t *answer_remove(const struct request *request);
json_t *answer_exempt(const struct request *request); // request_terms.c
json_t *answer_suspend(const struct request *request);
json_t *answer_resume(const struct request *request);
