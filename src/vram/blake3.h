// Computes the keyed BLAKE3 hash of host memory in plain C. Slow; for tests and tools. Any thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define VRAM_KEY_BYTES 32
#define VRAM_ROOT_BYTES 32

// Computes the hash. `data` may be NULL if `size` is 0.
void vram_blake3(const void *data, size_t size, const uint8_t key[VRAM_KEY_BYTES], uint8_t ret_root[VRAM_ROOT_BYTES]);
