// The keys of seals, attestations and audit logs: derived from one secret of the user's, in memory that is locked, not
// dumped, and wiped at the end. Any thread; keys do not change once they are open.
#pragma once
#include "base/status.h"
#include "vram/mac.h"

struct vram_keys {
	uint8_t tree[VRAM_SECRET]; // of the hash of contents
	uint8_t seal[VRAM_SECRET];
	uint8_t attestation[VRAM_SECRET];
	uint8_t audit[VRAM_SECRET]; // the same for all vGPUs: they may share a log
};

// Reads the secret from the file, or from the kernel's key of type "user" with that description in the thread's,
// process', session or user's keyring: exactly one of the two is not NULL. `vgpu` is whose keys these are. INVALID,
// NOT_FOUND, DENIED (mode, owner, a link), LIMIT (RLIMIT_MEMLOCK), NO_MEMORY, SYSTEM.
enum vg_status vram_keys_open(const char *file, const char *ring, const char *vgpu, struct vram_keys **ret_keys);
// NULL is fine.
void vram_keys_close(struct vram_keys *keys);
