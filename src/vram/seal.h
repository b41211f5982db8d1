// Checks seals and computes their MACs, for this directory and src/share. Any thread.
#pragma once
#include "vram/key.h"
#include "virgate/seal.h"

#include <stdbool.h>

// Checks the form of the fields. If a field is invalid, returns the status `otherwise`, and sets an error whose text
// begins with `what`.
enum vg_status vram_seal_check(const struct vg_seal *seal, const char *what, enum vg_status otherwise);
// Computes the MAC over all fields but `mac`.
void vram_seal_compute_mac(const struct vg_seal *seal, const struct vram_keys *keys, uint8_t ret_mac[VRAM_MAC]);
bool vram_seal_is_genuine(const struct vg_seal *seal, const struct vram_keys *keys);
// Returns whether the text is a valid id: 1 to VG_SEAL_ID_MAX characters of A-Z a-z 0-9 - _, within `capacity`.
bool vram_seal_is_id(const char *id, size_t capacity);
