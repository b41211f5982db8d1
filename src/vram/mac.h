// Computes a keyed BLAKE2b of 32 bytes over a list of fields. The length of each field, 64 bits, little-endian,
// precedes the field, so that different lists never give the same bytes. A number is a field of 8 bytes, little-endian.
// Call sodium_init() first. Any thread.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sodium.h>

enum { VRAM_MAC = 32, VRAM_SECRET = 32 };

struct vram_mac {
	crypto_generichash_state state;
};

// Begins a MAC. `what` is the first field and names the kind of record: the MAC of one kind is not valid for another.
void vram_mac_begin(struct vram_mac *mac, const uint8_t key[VRAM_SECRET], const char *what);
void vram_mac_bytes(struct vram_mac *mac, const void *data, size_t size);
void vram_mac_text(struct vram_mac *mac, const char *text);
void vram_mac_number(struct vram_mac *mac, uint64_t number);
// Finishes the MAC and wipes `mac`.
void vram_mac_end(struct vram_mac *mac, uint8_t ret_mac[VRAM_MAC]);
