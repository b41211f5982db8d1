// Computes the keyed BLAKE3 hash of device memory on the GPU; the contents never reach the host. Any thread; several
// threads may use one hasher at the same time.
#pragma once
#include "vram/blake3.h"

#include "virgate/context.h"
#include "virgate/stream.h"

struct vram_hasher; // the kernels in one context, and their scratch memory

// Creates a hasher, which the caller destroys with vram_hasher_destroy(). Fails with INVALID, CLOSED, NO_MEMORY or
// DRIVER.
enum vg_status vram_hasher_create(struct vg_context *context, struct vram_hasher **ret_hasher);
// Destroys a hasher that no thread is using. Accepts NULL.
void vram_hasher_destroy(struct vram_hasher *hasher);

// Hashes `size` bytes (at least 1) at `address` on `stream`, and waits for the result. Faster if the address is a
// multiple of 16. Keeps scratch memory for the next hash: 4 MiB for each GiB, at most 18 MiB. Fails with INVALID (no
// bytes, a range beyond the address space, a stream of another context), STATE (the stream is being captured), CLOSED,
// NO_MEMORY or DRIVER.
enum vg_status vram_hash(struct vram_hasher *hasher, struct vg_stream *stream, vg_address address, size_t size,
			 const uint8_t key[VRAM_KEY_BYTES], uint8_t ret_root[VRAM_ROOT_BYTES]);

// For tests: sets how many bytes are hashed before scratch memory is reused. Must be a multiple of 4 MiB; the default
// is 4 GiB.
void vram_hasher_set_piece(struct vram_hasher *hasher, size_t bytes);
