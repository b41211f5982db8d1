// The keyed hash of device memory, computed by the GPU: the contents never come to the host. It is BLAKE3's keyed_hash
// of the bytes. Any thread, several at once with one hasher.
#pragma once
#include "vram/blake3.h"

#include "virgate/context.h"
#include "virgate/stream.h"

struct vram_hasher; // of one context: the kernels, and where their scratch memory comes from

// Ended by vram_hasher_destroy(). `function` is whom errors name. INVALID, CLOSED, NO_MEMORY, DRIVER.
enum vg_status vram_hasher_create(struct vg_context *context, struct vram_hasher **ret_hasher);
// Nothing of it may be running. NULL is fine.
void vram_hasher_destroy(struct vram_hasher *hasher);

// Of `size` bytes at `address`, 1 at least: what was queued on `stream` before is waited for, and so is the result.
// Addresses that are multiples of 16 are fast. Scratch memory, 4 MiB for 1 GiB and no more than 18 MiB, is kept
// for the next hash. INVALID (no bytes, past the end of the address space, a stream of another context), STATE (the
// stream captures), CLOSED, NO_MEMORY, DRIVER.
enum vg_status vram_hash(struct vram_hasher *hasher, struct vg_stream *stream, vg_address address, size_t size,
			 const uint8_t key[VRAM_KEY_BYTES], uint8_t ret_root[VRAM_ROOT_BYTES]);

// For tests: bytes that are hashed before scratch memory is used again, a multiple of 4 MiB. By itself it is 4 GiB.
void vram_hasher_set_piece(struct vram_hasher *hasher, size_t bytes);
