// Applies the limits of users and groups in the system's configuration file. Main thread only.
#pragma once
#include "daemon/request.h"

// Reads the file if it has changed, and finds the users and groups that it names. Returns false if the request must
// wait for a lookup.
bool allowance_is_ready(const struct request *request);
// The figures that a request asks for, and the vGPU that will get them.
struct allowance_wish {
	const struct vgpu *vgpu; // the vGPU, with its owner and the owner's groups
	uint64_t memory;
	const struct turn_terms *terms;
	// the existing vGPU whose figures these will replace; NULL: they are for a new vGPU
	const struct vgpu *instead_of;
};
// Checks the limits of the owner and of the owner's groups. Returns NULL or a refusal. Sets *ret_final if the request
// would be refused even if no other vGPU existed, so that waiting does not help.
json_t *allowance_check(const struct request *request, const struct allowance_wish *wish, bool *ret_final);
