// Functions that the files of the verbs `create`, `enter`, `set` and `suspend` share. Main thread only.
#pragma once
#include "base/size.h"
#include "daemon/request.h"

// request_fields.c: each function reads a field of the request, and returns NULL or a refusal.
json_t *read_memory(const struct request *request, uint64_t *ret_memory);
// Reads "memory" as read_memory() does. If it is missing, uses the part of the GPU's memory that the compute share
// names.
json_t *read_memory_or_part(const struct request *request, struct vgpu *wanted);
json_t *read_owner(const struct request *request, uid_t *ret_owner);

// request_terms.c: read_terms() reads "share", "share_limit" and "class"; read_share() reads "share" alone, and leaves
// *ret_share unchanged if it is missing. Both return NULL or a refusal.
json_t *read_terms(const struct request *request, struct turn_terms *ret_terms);
json_t *read_share(const struct request *request, unsigned int *ret_share);
// Checks that the share in `terms` fits for the vGPU, which may be new, beside the shares of the device's other vGPUs.
// Returns NULL or a refusal.
json_t *admit_share(const struct request *request, size_t device, const struct turn_terms *terms,
		    const struct vgpu *vgpu);

// request_job.c
// Reads "job", the name of the new vGPU's job, and checks the terms that jobs cannot have. Returns NULL or a refusal.
json_t *read_job(const struct request *request, struct vgpu *wanted);
// Marks the GPUs on which the new vGPU's job has a vGPU already as not allowed. Returns NULL, or a refusal if no GPU is
// left.
json_t *exclude_job(const struct request *request, const struct vgpu *wanted, bool allowed[VG_SYSTEM_DEVICES]);

// request_eviction.c
// Returns the field "evictable", which the choice of a GPU needs.
bool read_evictable(const struct request *request);
// Reads "evictable", "swap", "fixed" and "idle_suspend", after the memory of the vGPU was set. Returns NULL or a
// refusal.
json_t *read_eviction(const struct request *request, struct vgpu *wanted);

// request_device.c: reads the GPU, the mode and the memory of a vGPU that has its other terms and its owner already. If
// the request allows several GPUs, chooses one on which the vGPU fits and can be entered now; of these, the one with
// most memory left. Returns NULL or a refusal.
json_t *read_device(const struct request *request, struct vgpu *wanted);

// Finds the GPU by its index or UUID. Returns NULL or a refusal.
json_t *find_device(const struct node *node, const char *text, size_t *ret_device);

// request_drain.c: returns the refusal of a new vGPU or program if the GPU is drained; else NULL.
json_t *refuse_drained(const struct request *request, size_t device);

// Refuses a request that may wait, if requests before it in the queue wait for this GPU. Returns the refusal, or NULL.
json_t *refuse_queued(const struct request *request, size_t device);
// Returns a bit mask of the devices on which the vGPU would fit if they had no other vGPUs.
uint64_t find_possible(const struct request *request, const struct vgpu *wanted);

// request_queue.c
// Returns whether the request waits if there is no room. Refuses an invalid "wait".
json_t *check_wait(const struct request *request);
bool is_queueing(const struct request *request);
// Lets the request wait in the queue instead of being refused, if it may wait and room can come. Consumes the refusal.
// Returns NULL or the refusal.
json_t *wait_instead(const struct request *request, const struct vgpu *wanted, json_t *refusal);

// request_admission.c
enum { FIGURE = VG_SIZE_TEXT + 32 };
// Writes the size as "8.0 GiB". Adds the bytes if the size `beside` would give the same text.
const char *write_figure(uint64_t bytes, uint64_t beside, char text[FIGURE]);
// Check the room on the device: for a new vGPU, or for an existing one with another memory and other terms. Return NULL
// or a refusal.
json_t *admit_new(const struct request *request, const struct vgpu *wanted);
json_t *admit_again(const struct request *request, const struct vgpu *vgpu, uint64_t memory,
		    const struct turn_terms *terms);
// Checks that a limit is large enough for a context. Returns NULL or a refusal.
json_t *refuse_too_small(const struct request *request, size_t device, uid_t owner, uint64_t memory);

// request_container.c: reads "container", and makes its first process a launcher of the vGPU. Returns NULL or a
// refusal.
json_t *enter_container(const struct request *request, struct vgpu *vgpu);

// request_create.c
// Returns the refusal for a vGPU whose ledger is damaged.
json_t *refuse_damaged(const struct vgpu *vgpu);
// Returns whether the vGPU can be entered or changed now. If not, *ret_answer is the refusal; it is NULL if the request
// must wait for a search or a write to the disk.
bool can_be_used(const struct request *request, struct vgpu *vgpu, json_t **ret_answer);

// The functions of the verbs, each in the file of its name, return the answer.
json_t *answer_create(const struct request *request);
json_t *answer_enter(const struct request *request);
json_t *answer_set(const struct request *request);
json_t *answer_remove(const struct request *request);
json_t *answer_exempt(const struct request *request); // request_terms.c
json_t *answer_suspend(const struct request *request);
json_t *answer_resume(const struct request *request);
json_t *answer_drain(const struct request *request);
json_t *answer_events(const struct request *request); // request_events.c
json_t *answer_dumped(const struct request *request);
json_t *answer_history(const struct request *request);
json_t *answer_status(const struct request *request);
json_t *answer_trace(const struct request *request);
