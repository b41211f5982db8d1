// Chunks of processes' memory pages: which pages are zero, compression, and checksums. One thread for each codec.
#pragma once
#include "virgate/checkpoint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CHUNK_BYTES = 2 << 20, // of chunks that are written; image/files.h has the sizes that are read
	CHUNK_PAGE = 4096,
};
// A map has one bit for each page, the lowest bit first; 1: the page has data.
static inline size_t chunk_map_bytes(size_t length)
{
	return (length + 8 * CHUNK_PAGE - 1) / (8 * CHUNK_PAGE);
}
static inline bool chunk_map_has(const unsigned char *map, size_t page)
{
	return map[page / 8] >> page % 8 & 1;
}
// Finds the next run of pages with data at or after `*at`, which is 0 or the end of the last run. The run lies in [0,
// length). Returns false if no run is left.
bool chunk_next_run(const unsigned char *map, size_t length, size_t *at, size_t *ret_bytes);

// Fills the map and returns the number of bytes in pages with data. The checksum covers these pages, then the map.
size_t chunk_examine(const void *data, size_t length, unsigned char *ret_map, uint64_t *ret_sum);

struct codec;
// VG_COMPRESSION_NONE is allowed, for chunks that were stored without compression. Returns NULL if there is no memory.
struct codec *codec_create(enum vg_compression compression, int level);
void codec_destroy(struct codec *codec);
// Writes the map and the pages with data to `out`: compressed, or as they are if that is shorter. `out` has room for
// chunk_map_bytes(length) + length. May move the pages inside `data`. Returns the bytes written, or 0 if no page has
// data.
size_t codec_pack(struct codec *codec, void *data, size_t length, unsigned char *out);
// Reverses codec_pack(). Returns false if `stored` is not a valid chunk of `length` bytes.
bool codec_unpack(struct codec *codec, const unsigned char *stored, size_t bytes, void *data, size_t length);

// Returns whether a method has the compression level. 0, the default level, is always valid. *ret_least, *ret_most: the
// range of levels; both are 0 if the method has no levels.
bool codec_level_is_sound(enum vg_compression compression, int level, int *ret_least, int *ret_most);
