// Functions for all requests, whether they are answered at once or begin a session with the broker. Main thread only.
#pragma once
#include "daemon/answer.h"
#include "daemon/authority.h"
#include "daemon/node.h"

struct request {
	struct node *node;
	const struct authority_peer *peer;
	const json_t *object;
	enum authority_verb verb;
};

// Returns NULL, so that the request is repeated after a search, a lookup or a write to the disk.
json_t *answer_later(const struct request *request);
// Returns the text of a field; NULL if the request has none.
const char *request_text(const struct request *request, const char *key);
// Finds the vGPU that the request names in the field `key`. Returns NULL if the vGPU does not exist, or the peer may
// not use it. *ret_refusal then says why.
struct vgpu *request_vgpu(const struct request *request, const char *key, json_t **ret_refusal);
// Checks that the peer may use the request's verb on the vGPU. Returns NULL or a refusal.
json_t *request_permit(const struct request *request, const struct vgpu *vgpu);
// Checks that the request is meant for this daemon's GPUs. Returns NULL or a refusal.
json_t *request_check_gpus(const struct request *request);
// Reads "group". Returns NULL or a refusal; leaves *ret_group unchanged if the request has no group.
json_t *request_read_group(const struct request *request, gid_t *ret_group);
// Returns the refusal for the name of a user or group that the system cannot look up now.
json_t *refuse_lookup(const char *kind, const char *name);
