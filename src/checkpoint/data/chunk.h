// Chunks of memory pages: finds zero pages, compresses, computes checksums. One thread for each codec.
#pragma once
#include "virgate/checkpoint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CHUNK_BYTES = 2 << 20, // size of the chunks that are written; readers accept other sizes (image/files.h)
	CHUNK_PAGE = 4096,
};
// Returns the size of a chunk's map: one bit for each page, the lowest bit first; 1 means that the page has data.
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
// Creates a codec. VG_COMPRESSION_NONE is allowed, for chunks without compression. Returns NULL if there is no memory.
struct codec *codec_create(enum vg_compression compression, int level);
void codec_destroy(struct codec *codec);
// Writes the map and the pages with data to `out`. Compresses the pages unless that makes them longer. `out` must have
// room for chunk_map_bytes(length) + length. May move the pages inside `data`. Returns the number of bytes written, or
// 0 if no page has data.
size_t codec_pack(struct codec *codec, void *data, size_t length, unsigned char *out);
// Reverses codec_pack(). Returns false if `stored` is not a valid chunk of `length` bytes.
bool codec_unpack(struct codec *codec, const unsigned char *stored, size_t bytes, void *data, size_t length);

// Returns whether the compression method has this level. Level 0, the default, is always valid. *ret_least, *ret_most:
// the range of levels; both are 0 if the method has no levels.
bool codec_level_is_sound(enum vg_compression compression, int level, int *ret_least, int *ret_most);
