// Reads the chunks of an image's files. Any thread.
#pragma once
#include "checkpoint/data/chunk.h"
#include "checkpoint/image/files.h"

// Returns the length of chunk `index` before compression.
size_t image_chunk_length(const struct image_file *file, size_t index);
// Returns the offset of each chunk in the file on the disk. The caller frees the array. NULL: no memory.
uint64_t *image_chunk_offsets(const struct image_file *file);

// Starts reading the chunk at `offset` from the disk into the page cache, without waiting.
void image_chunk_expect(int fd, const struct image_file *file, size_t index, uint64_t offset);

enum { IMAGE_CHUNK_DAMAGED = 1 };
// Reads the chunk at `offset` into `buffer`, which has room for chunk_map_bytes() + chunk_bytes, and compares its
// checksum. *ret_sum: the checksum of what was read. Reads nothing if the chunk is a hole. Returns 0, -errno or
// IMAGE_CHUNK_DAMAGED.
int image_chunk_load(int fd, const struct image_file *file, size_t index, uint64_t offset, unsigned char *buffer,
		     uint64_t *ret_sum);
// Sets the last error for `r`, the result of image_chunk_load(): SYSTEM or INTEGRITY, with the number of the chunk and
// both checksums.
enum vg_status image_chunk_fail(int r, const char *path, const struct image_file *file, size_t index, uint64_t offset,
				uint64_t sum);
