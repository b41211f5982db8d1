// What requests have in common, whether they are answered at once or begin a session with the broker. One thread.
#pragma once
#include "daemon/node.h"

struct request {
	struct node *node;
	const struct authority_peer *peer;
	const json_t *object;
	enum authority_verb verb;
};

__attribute__((format(printf, 2, 3))) json_t *refuse(const char *code, const char *format, ...);
// NULL: the request is asked again once a search, or a write to the disk, has ended.
json_t *answer_later(const struct request *request);
json_t *agree_with(const char *key, json_t *value);
const char *text_of(const struct request *request, const char *key);
// What a command that an answer suggests needs to find this daemon: " --sim=SPEC" on a simulated GPU, else "".
const char *sim_flag(void);
// NULL, or a refusal; *ret_group stays as it is where the request names none.
json_t *take_group(const struct request *request, gid_t *ret_group);
// The vGPU that the request names in `key`, and that the peer may do this to; NULL: *ret_refusal says why not.
struct vgpu *request_vgpu(const struct request *request, const char *key, json_t **ret_refusal);
// NULL, or a refusal: the peer may not do this to the vGPU.
json_t *request_permit(const struct request *request, const struct vgpu *vgpu);
// removal.c
json_t *removal_answer(const struct request *request);
// NULL, or a refusal: the request is meant for other GPUs than this daemon's.
json_t *other_gpus(const struct request *request);
