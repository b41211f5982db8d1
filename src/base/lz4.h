// The LZ4 blocks of fat binaries. Older toolkits write blocks that end in a match, which
// the format's own rules (and so its library) refuse. Any thread.
#pragma once

#include <stddef.h>

// Expands a block into `output`; returns the bytes written, or SIZE_MAX if it is damaged
// or does not fit.
size_t vg_lz4_expand(const void *input, size_t input_size, void *output, size_t output_size);
