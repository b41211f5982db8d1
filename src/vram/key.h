// Derives the keys of seals, attestations and audit logs from one secret of the user. Their memory is locked, excluded
// from core dumps, and wiped at the end. Any thread, because keys do not change after they were read.
#pragma once
#include "base/status.h"
#include "vram/mac.h"

struct vram_keys {
	uint8_t tree[VRAM_SECRET]; // key for hashing contents
	uint8_t seal[VRAM_SECRET];
	uint8_t attestation[VRAM_SECRET];
	uint8_t audit[VRAM_SECRET]; // the same key for all vGPUs, because they may share a log
};

// Reads the secret from `file`, or from the kernel key of type "user" with the description `ring`. One of the two
// parameters must be NULL. Derives the keys of the vGPU named `vgpu`. Searches the kernel key in the keyrings of the
// thread, the process, the session and the user. Fails with INVALID, NOT_FOUND, DENIED (mode, owner, a link), LIMIT
// (RLIMIT_MEMLOCK), NO_MEMORY or SYSTEM.
enum vg_status vram_keys_open(const char *file, const char *ring, const char *vgpu, struct vram_keys **ret_keys);
// accepts NULL.
void vram_keys_close(struct vram_keys *keys);
