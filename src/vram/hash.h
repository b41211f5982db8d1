// The keyed BLAKE3 hash of device memory, computed by the GPU: the contents never reach the host. Any thread; several
// threads may use one hasher at the same time.
#pragma once
#include "vram/blake3.h"

#include "virgate/context.h"
#include "virgate/stream.h"

struct vram_hasher; // the kernels in one context, and their scratch memory

// The caller ends it with vram_hasher_destroy(). INVALID, CLOSED, NO_MEMORY, DRIVER.
enum vg_status vram_hasher_create(struct vg_context *context, struct vram_hasher **ret_hasher);
// No hash may be running. Accepts NULL.
void vram_hasher_destroy(struct vram_hasher *hasher);

// Hashes `size` bytes, at least 1, at `address` on `stream`, and waits for the result. Addresses that are multiples of
// 16 are faster. Scratch memory, 4 MiB for each GiB and at most 18 MiB, is kept for the next hash. INVALID (no bytes,
// past the end of the address space, a stream of another context), STATE (the stream is being captured), CLOSED,
// NO_MEMORY, DRIVER.
enum vg_status vram_hash(struct vram_hasher *hasher, struct vg_stream *stream, vg_address address, size_t size,
			 const uint8_t key[VRAM_KEY_BYTES], uint8_t ret_root[VRAM_ROOT_BYTES]);

// For tests: sets the number of bytes that are hashed before scratch memory is reused. A multiple of 4 MiB; the default
// is 4 GiB.
void vram_hasher_set_piece(struct vram_hasher *hasher, size_t bytes);
