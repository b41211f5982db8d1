// What a context has beyond memory: keys, what hashes, and the audit log; and what is recorded in it. Any thread.
#pragma once
#include "vram/audit.h"
#include "vram/seal.h"
#include "vram/vram.h"

// After the context was retained. What it leaves behind on failure, vram_trust_close() takes away.
enum vg_status vram_trust_open(struct vg_vram *vram, const struct vg_vram_options *options);
// Before the context is given back.
void vram_trust_close(struct vg_vram *vram);

// STATE: it was opened without a secret.
enum vg_status vram_check_secret(const struct vg_vram *vram);

// Records what happened to a region; `seal` may be NULL. The caller undoes it if this fails.
enum vg_status vram_record(struct vram_region *region, enum vram_event_kind kind, const struct vg_seal *seal);
// Records what the thread's last error says.
void vram_record_failure(struct vram_region *region, enum vram_event_kind kind, const struct vg_seal *seal);

// For memory that another process sealed, which it says with `seal`: the region is as sealed as that, frozen, and
// vg_vram_verify() takes the seal. INTEGRITY (it is not of this secret and vGPU, or not of this device and size), STATE
// (the context has no secret), POLICY (the region is sealed already), BUSY (a loan that may write is out), and what
// vram_pin() answers.
enum vg_status vram_adopt_seal(struct vg_vram_handle handle, const struct vg_seal *seal);
