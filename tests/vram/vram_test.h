// Helpers of the tests of vram (device memory behind handles): the input of the published test vectors, contents of
// memory, and roots as text.
#pragma once
#include "vectors.h"
#include "vram/blake3.h"

#include <stdio.h>
#include <stdlib.h>

enum { VECTOR_COUNT = sizeof vectors / sizeof vectors[0] };

// Returns the input of the published test vectors. The caller frees it.
static inline uint8_t *pattern(size_t size)
{
	uint8_t *data = malloc(size);

	for (size_t i = 0; i < size; i++)
		data[i] = (uint8_t)(i % 251);
	return data;
}

// Returns the text of a root; valid until the next call of the same thread.
static inline const char *hex(const uint8_t root[VRAM_ROOT_BYTES])
{
	static _Thread_local char text[2 * VRAM_ROOT_BYTES + 1];

	for (int i = 0; i < VRAM_ROOT_BYTES; i++)
		sprintf(text + 2 * i, "%02x", root[i]);
	return text;
}
