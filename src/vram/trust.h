// Opens the keys, the hasher and the audit log of a context, and records operations in that log. Any thread.
#pragma once
#include "vram/audit.h"
#include "vram/seal.h"
#include "vram/vram.h"

// Opens the keys, the hasher and the audit log. `vram->context` must be set. After a failure, vram_trust_close() frees
// what was opened.
enum vg_status vram_trust_open(struct vg_vram *vram, const struct vg_vram_options *options);
// Closes the keys, the hasher and the audit log. Call before releasing the reference to `vram->context`.
void vram_trust_close(struct vg_vram *vram);

// Returns STATE if the context was opened without a secret.
enum vg_status vram_check_secret(const struct vg_vram *vram);

// Records an operation on a region; `seal` may be NULL. If this fails, the caller rolls the operation back.
enum vg_status vram_record(struct vram_region *region, enum vram_event_kind kind, const struct vg_seal *seal);
// Records a failed operation with the text of the thread's last error.
void vram_record_failure(struct vram_region *region, enum vram_event_kind kind, const struct vg_seal *seal);

// Seals an imported region with `seal`, which the exporter made. Freezes the region, so that vg_vram_verify() accepts
// `seal` for the region from then on. Does not hash the contents. Fails with INTEGRITY (another secret, vGPU, device or
// size), STATE (the context has no secret), POLICY (the region is sealed already), BUSY (a loan allows writing), and
// the errors of vram_pin().
enum vg_status vram_adopt_seal(struct vg_vram_handle handle, const struct vg_seal *seal);
