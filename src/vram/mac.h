// A keyed BLAKE2b of 32 bytes over fields, each behind its length, so that no two lists of fields are the same bytes:
// 64-bit little-endian length, then the field; a number is a field of 8 bytes, little-endian. After sodium_init(). Any
// thread.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sodium.h>

enum { VRAM_MAC = 32, VRAM_SECRET = 32 };

struct vram_mac {
	crypto_generichash_state state;
};

// `what` is the first field: what is authenticated, so that no MAC of one thing passes for one of another.
void vram_mac_begin(struct vram_mac *mac, const uint8_t key[VRAM_SECRET], const char *what);
void vram_mac_bytes(struct vram_mac *mac, const void *data, size_t size);
void vram_mac_text(struct vram_mac *mac, const char *text);
void vram_mac_number(struct vram_mac *mac, uint64_t number);
// Wipes what the key left in it.
void vram_mac_end(struct vram_mac *mac, uint8_t ret_mac[VRAM_MAC]);
