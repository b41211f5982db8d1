// Seals, as this room and the one that shares memory see them. Any thread.
#pragma once
#include "vram/key.h"
#include "virgate/seal.h"

#include <stdbool.h>

// Whether the fields could be those of a seal; `otherwise`, with the field in words that begin with `what`, if not.
enum vg_status vram_seal_check(const struct vg_seal *seal, const char *what, enum vg_status otherwise);
// The MAC that belongs to its other fields.
void vram_seal_mac(const struct vg_seal *seal, const struct vram_keys *keys, uint8_t ret_mac[VRAM_MAC]);
bool vram_seal_is_genuine(const struct vg_seal *seal, const struct vram_keys *keys);
// 1 to VG_SEAL_ID_MAX of A-Z a-z 0-9 - _, within `capacity`.
bool vram_seal_is_id(const char *id, size_t capacity);
