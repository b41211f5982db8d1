// The keys of seals, attestations and audit logs, derived from one secret of the user. Their memory is locked, left out
// of core dumps, and wiped at the end. Any thread: keys do not change once they are open.
#pragma once
#include "base/status.h"
#include "vram/mac.h"

struct vram_keys {
	uint8_t tree[VRAM_SECRET]; // for the hash of contents
	uint8_t seal[VRAM_SECRET];
	uint8_t attestation[VRAM_SECRET];
	uint8_t audit[VRAM_SECRET]; // the same for all vGPUs, which may use one log
};

// Reads the secret from a file, or from the kernel key of type "user" with the description `ring`, and derives the keys
// of the vGPU named `vgpu`. Exactly one of `file` and `ring` is not NULL. The key is searched in the keyrings of the
// thread, the process, the session and the user. INVALID, NOT_FOUND, DENIED (mode, owner, a link), LIMIT
// (RLIMIT_MEMLOCK), NO_MEMORY, SYSTEM.
enum vg_status vram_keys_open(const char *file, const char *ring, const char *vgpu, struct vram_keys **ret_keys);
// accepts NULL.
void vram_keys_close(struct vram_keys *keys);
