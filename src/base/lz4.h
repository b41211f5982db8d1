// Decompresses the LZ4 blocks of fat binaries. Older toolkits write blocks that end in a match, which the LZ4 format
// and its library do not allow. Any thread.
#pragma once

#include <stddef.h>

// Decompresses a block into `output`. Returns the number of bytes written, or SIZE_MAX if the block is invalid or does
// not fit.
size_t vg_lz4_expand(const void *input, size_t input_size, void *output, size_t output_size);
