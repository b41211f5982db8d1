// The chunks of an image's files. Any thread.
#pragma once
#include "checkpoint/data/chunk.h"
#include "checkpoint/image/files.h"

// How long chunk `index` is as CRIU knows it.
size_t image_chunk_length(const struct image_file *file, size_t index);
// Where each begins in the file on the disk; to be freed. NULL: no memory.
uint64_t *image_chunk_offsets(const struct image_file *file);

// Has the disk begin to read it, as it is stored at `offset`, and does not wait.
void image_chunk_expect(int fd, const struct image_file *file, size_t index, uint64_t offset);

enum { IMAGE_CHUNK_DAMAGED = 1 };
// Reads it as it is stored at `offset`, into `buffer`, which has room for chunk_map_bytes() + chunk_bytes, and checks its
// sum. *ret_sum: that found. Where nothing is stored, nothing may be read. 0, -errno or IMAGE_CHUNK_DAMAGED.
int image_chunk_load(int fd, const struct image_file *file, size_t index, uint64_t offset, unsigned char *buffer,
		     uint64_t *ret_sum);
// Sets the last error: SYSTEM or INTEGRITY, with which chunk it is and what was wanted and found.
enum vg_status image_chunk_fail(int r, const char *path, const struct image_file *file, size_t index, uint64_t offset,
				uint64_t sum);
