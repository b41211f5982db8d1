#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checkpoint/data/chunk.h"

#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

struct codec {
	enum vg_compression compression;
	ZSTD_CCtx *out;
	ZSTD_DCtx *in;
	void *lz4;
};

// Returns whether the page is zero: the first word is zero, and each word equals the next. That is fast, because most
// pages with data have a nonzero word at the beginning.
static bool is_zero_page(const unsigned char *page, size_t length)
{
	uint64_t first = 0;

	memcpy(&first, page, length < sizeof first ? length : sizeof first);
	return first == 0 && (length <= sizeof first || memcmp(page, page + sizeof first, length - sizeof first) == 0);
}

bool chunk_next_run(const unsigned char *map, size_t length, size_t *at, size_t *ret_bytes)
{
	size_t pages = (length + CHUNK_PAGE - 1) / CHUNK_PAGE, page = (*at + CHUNK_PAGE - 1) / CHUNK_PAGE;

	while (page < pages && !chunk_map_has(map, page))
		page++;
	size_t first = page;
	while (page < pages && chunk_map_has(map, page))
		page++;
	if (first == page)
		return false;
	*at = first * CHUNK_PAGE;
	*ret_bytes = (page == pages ? length : page * CHUNK_PAGE) - *at;
	return true;
}

// Compute checksums in runs of this size, so that the data is still in the cache after the search for zero pages.
enum { RUN_BYTES = 32 << 10 };

static size_t map_pages(const unsigned char *data, size_t length, unsigned char *ret_map, XXH3_state_t *state)
{
	size_t bytes_with_data = 0, from = 0;

	memset(ret_map, 0, chunk_map_bytes(length));
	for (size_t at = 0; at < length; at += CHUNK_PAGE) {
		size_t bytes = length - at < CHUNK_PAGE ? length - at : CHUNK_PAGE;
		bool zero = is_zero_page(data + at, bytes);
		if (!zero) {
			ret_map[at / CHUNK_PAGE / 8] |= (unsigned char)(1u << at / CHUNK_PAGE % 8);
			bytes_with_data += bytes;
		}
		if (state && (zero || at + bytes - from >= RUN_BYTES)) {
			size_t end = zero ? at : at + bytes;
			if (end > from)
				XXH3_64bits_update(state, data + from, end - from);
			from = at + bytes;
		}
	}
	if (state && length > from)
		XXH3_64bits_update(state, data + from, length - from);
	return bytes_with_data;
}

size_t chunk_examine(const void *data, size_t length, unsigned char *ret_map, uint64_t *ret_sum)
{
	XXH3_state_t state;

	XXH3_64bits_reset(&state);
	size_t bytes_with_data = map_pages(data, length, ret_map, &state);
	XXH3_64bits_update(&state, ret_map, chunk_map_bytes(length));
	*ret_sum = XXH3_64bits_digest(&state);
	return bytes_with_data;
}

struct codec *codec_create(enum vg_compression compression, int level)
{
	struct codec *codec = calloc(1, sizeof *codec);
	bool made = codec != NULL;

	if (made)
		codec->compression = compression;
	if (made && compression == VG_COMPRESSION_LZ4)
		made = (codec->lz4 = malloc((size_t)LZ4_sizeofState())) != NULL;
	if (made && compression == VG_COMPRESSION_ZSTD) {
		codec->out = ZSTD_createCCtx();
		codec->in = ZSTD_createDCtx();
		made = codec->out && codec->in &&
		       !ZSTD_isError(ZSTD_CCtx_setParameter(codec->out, ZSTD_c_compressionLevel, level));
	}
	if (made)
		return codec;
	codec_destroy(codec);
	return NULL;
}

void codec_destroy(struct codec *codec)
{
	if (!codec)
		return;
	ZSTD_freeCCtx(codec->out);
	ZSTD_freeDCtx(codec->in);
	free(codec->lz4);
	free(codec);
}

// Compresses the data. Returns the compressed length, or 0 if it exceeds `capacity`.
static size_t compress(struct codec *codec, const unsigned char *data, size_t length, unsigned char *out,
		       size_t capacity)
{
	if (codec->compression == VG_COMPRESSION_LZ4) {
		int r = LZ4_compress_fast_extState(codec->lz4, (const char *)data, (char *)out, (int)length,
						   (int)capacity, 1);
		return r > 0 ? (size_t)r : 0;
	}
	if (codec->compression == VG_COMPRESSION_ZSTD) {
		size_t r = ZSTD_compress2(codec->out, out, capacity, data, length);
		return ZSTD_isError(r) ? 0 : r;
	}
	return 0;
}

size_t codec_pack(struct codec *codec, void *data, size_t length, unsigned char *out)
{
	size_t map_bytes = chunk_map_bytes(length), packed = 0, run;

	if (map_pages(data, length, out, NULL) == 0)
		return 0;
	for (size_t at = 0; chunk_next_run(out, length, &at, &run); at += run) {
		if (packed != at)
			memmove((char *)data + packed, (char *)data + at, run);
		packed += run;
	}
	size_t bytes = compress(codec, data, packed, out + map_bytes, packed - 1);
	if (bytes == 0) {
		memcpy(out + map_bytes, data, packed);
		bytes = packed;
	}
	return map_bytes + bytes;
}

static bool decompress(struct codec *codec, const unsigned char *stored, size_t bytes, unsigned char *out,
		       size_t length)
{
	if (bytes == length) {
		memcpy(out, stored, length);
		return true;
	}
	if (codec->compression == VG_COMPRESSION_LZ4)
		return LZ4_decompress_safe((const char *)stored, (char *)out, (int)bytes, (int)length) == (int)length;
	return codec->compression == VG_COMPRESSION_ZSTD &&
	       ZSTD_decompressDCtx(codec->in, out, length, stored, bytes) == length;
}

// Moves the packed pages to their places in the chunk. Goes from the last page to the first, since pages only move
// towards the end.
static void spread_pages(const unsigned char *map, unsigned char *data, size_t length, size_t packed)
{
	for (size_t page = (length + CHUNK_PAGE - 1) / CHUNK_PAGE; page-- > 0;) {
		size_t at = page * CHUNK_PAGE, bytes = length - at < CHUNK_PAGE ? length - at : CHUNK_PAGE;
		if (!chunk_map_has(map, page)) {
			memset(data + at, 0, bytes);
			continue;
		}
		packed -= bytes;
		if (packed != at)
			memmove(data + at, data + packed, bytes);
	}
}

bool codec_unpack(struct codec *codec, const unsigned char *stored, size_t bytes, void *data, size_t length)
{
	size_t map_bytes = chunk_map_bytes(length), packed = 0, run;

	if (bytes == 0) {
		memset(data, 0, length);
		return true;
	}
	if (bytes <= map_bytes)
		return false;
	// Reject a map with bits after the last page of the chunk.
	size_t pages = (length + CHUNK_PAGE - 1) / CHUNK_PAGE;
	if (pages % 8 && stored[map_bytes - 1] >> pages % 8)
		return false;
	for (size_t at = 0; chunk_next_run(stored, length, &at, &run); at += run)
		packed += run;
	if (packed == 0 || bytes - map_bytes > packed ||
	    !decompress(codec, stored + map_bytes, bytes - map_bytes, data, packed))
		return false;
	spread_pages(stored, data, length, packed);
	return true;
}

bool codec_level_is_sound(enum vg_compression compression, int level, int *ret_least, int *ret_most)
{
	bool has = compression == VG_COMPRESSION_ZSTD;

	*ret_least = has ? 1 : 0;
	*ret_most = has ? ZSTD_maxCLevel() : 0;
	return level >= 0 && level <= *ret_most;
}
