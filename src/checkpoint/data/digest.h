// Computes BLAKE3-256 digests of blocks of device memory, eight BLAKE3 chunks at a time in vector registers. Any
// thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { DIGEST_BYTES = 32, DIGEST_LEAST = 16 << 10, DIGEST_MOST = 2 << 20 };

// Computes the digest of a block. `size` is a power of 2 from DIGEST_LEAST to DIGEST_MOST.
void digest_block(const void *data, size_t size, uint8_t ret_digest[DIGEST_BYTES]);
// Computes BLAKE3's keyed hash of a block. Only tests use it.
void digest_block_keyed(const void *data, size_t size, const uint8_t key[DIGEST_BYTES],
			uint8_t ret_digest[DIGEST_BYTES]);
