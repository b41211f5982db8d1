// Pages of processes, a chunk at a time: which of them hold nothing, what a chunk becomes on the disk, and its checksum.
// A codec serves one thread.
#pragma once
#include "virgate/checkpoint.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CHUNK_BYTES = 2 << 20, // that we write; see image/files.h for those we read
	CHUNK_PAGE = 4096,
};
// One bit a page, the first one's the lowest.
static inline size_t chunk_map_bytes(size_t length)
{
	return (length + 8 * CHUNK_PAGE - 1) / (8 * CHUNK_PAGE);
}
static inline bool chunk_map_has(const unsigned char *map, size_t page)
{
	return map[page / 8] >> page % 8 & 1;
}
// From `*at` on, where a run ended, or 0: the next run of pages that hold something, all of them in [0, length).
// False: there is none.
bool chunk_next_run(const unsigned char *map, size_t length, size_t *at, size_t *ret_bytes);

// Which pages hold anything, in one pass with the checksum of those and of the map, in this order. The bytes they have.
size_t chunk_examine(const void *data, size_t length, unsigned char *ret_map, uint64_t *ret_sum);

struct codec;
// VG_COMPRESSION_NONE too, for reading what does not shrink. NULL: no memory.
struct codec *codec_create(enum vg_compression compression, int level);
void codec_destroy(struct codec *codec);
// The map, and the pages that hold something: compressed, or as they are where that is shorter. `data` may be moved
// together on the way; `out` has room for chunk_map_bytes(length) + length. Bytes of `out`; 0: no page holds anything.
size_t codec_pack(struct codec *codec, void *data, size_t length, unsigned char *out);
// The other way. False: that is no chunk of `length` bytes.
bool codec_unpack(struct codec *codec, const unsigned char *stored, size_t bytes, void *data, size_t length);

// Whether a level is one of the method's; 0, the method's own choice, always is. *ret_least, *ret_most: which are;
// both 0: it has none.
bool codec_level_is_sound(enum vg_compression compression, int level, int *ret_least, int *ret_most);
