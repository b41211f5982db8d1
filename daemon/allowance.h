// Applies the limits of users and groups in the system's configuration file. Main thread only.
#pragma once
#include "daemon/request.h"

// Reads the file if it has changed, and finds the users and groups that it names. Returns false if the request must
// wait for a lookup.
bool allowance_is_ready(const struct request *request);
// What a vGPU shall have, and whose it is.
struct allowance_wish {
	const struct vgpu *vgpu; // with the owner and the owner's groups
	uint64_t memory;
	const struct turn_terms *terms;
	const struct vgpu *instead_of; // the vGPU whose figures these will replace; NULL: a new vGPU
};
// Checks the limits of the owner and of the owner's groups. Returns NULL or a refusal. *ret_final: other vGPUs have
// nothing to do with it, so it does not help to wait.
json_t *allowance_check(const struct request *request, const struct allowance_wish *wish, bool *ret_final);
