// Fuzzes the readers of an image. The first byte of the input selects the part that the other bytes are: virgate.json,
// its list of files, a chunk of pages, CRIU's pagemap, the index of device memory, or one of its blocks. Each reader
// must refuse the bytes or return consistent data.
#include "checkpoint/criu/pagemap.h"
#include "checkpoint/data/chunk.h"
#include "checkpoint/image/device_index.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length);

enum { MOST = 64 * CHUNK_PAGE, GUARD = 64 };

static void read_text(const char *text, size_t length)
{
	json_t *description;

	if (image_parse(text, length, "fuzz", &description) == VG_OK)
		json_decref(description);
}

static void read_list(const char *text, size_t length)
{
	json_t *description = json_loadb(text, length, 0, NULL);
	struct image_files files;
	unsigned tree;

	if (description && image_files_read(description, "fuzz", &files) == VG_OK) {
		for (size_t i = 0; i < files.count; i++) {
			const struct image_file *file = &files.files[i];
			uint64_t stored = 0;
			for (size_t k = 0; k < file->chunk_count; k++)
				stored += file->chunks[k].stored;
			if (!image_name_is_sound(file->name, &tree) || image_files_find(&files, file->name) != file ||
			    (file->chunk_bytes ? stored != file->stored : file->stored != file->bytes))
				abort();
		}
		image_files_free(&files);
	}
	json_decref(description);
}

// Unpacks a chunk of pages. Pages that can be unpacked are packed again, which must unpack to the same bytes.
static void read_chunk(enum vg_compression compression, const unsigned char *data, size_t bytes, size_t length)
{
	static unsigned char first[MOST + GUARD], second[MOST], packed[MOST + MOST / CHUNK_PAGE];
	struct codec *codec = codec_create(compression, 0);

	memset(first + length, 0xaa, GUARD);
	if (codec && codec_unpack(codec, data, bytes, first, length)) {
		memcpy(second, first, length);
		size_t again = codec_pack(codec, second, length, packed);
		if (again > chunk_map_bytes(length) + length || !codec_unpack(codec, packed, again, second, length) ||
		    memcmp(first, second, length) != 0)
			abort();
	}
	for (size_t i = 0; i < GUARD; i++)
		if (first[length + i] != 0xaa)
			abort();
	codec_destroy(codec);
}

// Reads a pagemap. The bytes are the number of pages (two bytes), the pagemap (up to `length` bytes), and the memory
// areas of its process.
static void read_pagemap(const unsigned char *data, size_t bytes, size_t length)
{
	enum { PAGES = 1024, COUNT = PAGES * CHUNK_PAGE / IMAGE_LEAST_CHUNK };
	struct image_chunk chunks[COUNT] = {0};
	struct image_file file = {.chunk_bytes = IMAGE_LEAST_CHUNK, .chunks = chunks};
	uint32_t id, thin_id;
	unsigned char *thin;
	size_t thin_length;
	bool *without;

	if (bytes < 2)
		return;
	file.raw = (data[0] | (size_t)data[1] << 8) % (PAGES + 1) * CHUNK_PAGE;
	file.chunk_count = (file.raw + IMAGE_LEAST_CHUNK - 1) / IMAGE_LEAST_CHUNK;
	for (size_t i = 0; i < file.chunk_count; i += 3)
		chunks[i].stored = CHUNK_PAGE;
	data += 2, bytes -= 2;
	length = length < bytes ? length : bytes;
	if (pagemap_thin(data, length, data + length, bytes - length, &file, &thin, &thin_length, &without))
		return;
	for (size_t i = 0; i < file.chunk_count; i++)
		if (without[i] && chunks[i].stored)
			abort();
	if (pagemap_pages_id(data, length, &id) || pagemap_pages_id(thin, thin_length, &thin_id) || id != thin_id)
		abort();
	free(thin);
	free(without);
}

// Reads the index of an image with two packs. If it is accepted, every block must be inside one of the packs, and
// blocks must cover all memory.
static void read_index(const unsigned char *data, size_t length)
{
	static struct image_file list[] = {{.name = "device/index", .bytes = 1},
					   {.name = "device/pack-0000", .bytes = 3 * DEVICE_BLOCK, .is_pack = true},
					   {.name = "device/pack-0001", .bytes = DEVICE_BLOCK, .is_pack = true}};
	const struct image_files files = {.files = list, .count = sizeof list / sizeof *list};
	struct device_index index;

	if (device_index_parse(data, length, &files, &index))
		return;
	if (device_index_first(&index, index.memory_count) != index.block_count)
		abort();
	for (size_t i = 0; i < index.block_count; i++) {
		const struct device_block *block = &index.blocks[i];
		if (block->codec >= DEVICE_CODECS || block->length > DEVICE_STORED_MOST)
			abort();
		if (block->codec != DEVICE_ZERO &&
		    (block->pack >= index.pack_count || block->offset + block->length > list[1 + block->pack].bytes))
			abort();
	}
	device_index_free(&index);
}

// Reads a stored block of any length.
static void read_block(const unsigned char *data, size_t length)
{
	static unsigned char whole[DEVICE_BLOCK + GUARD];
	const struct device_block block = {.codec = DEVICE_LZ4, .length = (uint32_t)length};

	memset(whole + DEVICE_BLOCK, 0xaa, GUARD);
	(void)device_block_unpack(&block, data, whole);
	for (size_t i = 0; i < GUARD; i++)
		if (whole[DEVICE_BLOCK + i] != 0xaa)
			abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length)
{
	if (length < 3)
		return 0;
	if (data[0] >= 254) {
		(data[0] == 254 ? read_index : read_block)(data + 3, length - 3);
		return 0;
	}
	size_t whole = (data[1] | (size_t)data[2] << 8) * 4 % MOST + 1;
	if (data[0] % 6 == 0)
		read_text((const char *)data + 3, length - 3);
	else if (data[0] % 6 == 1)
		read_list((const char *)data + 3, length - 3);
	else if (data[0] % 6 == 5)
		read_pagemap(data + 3, length - 3, whole);
	else
		read_chunk((enum vg_compression)(data[0] % 6 - 2), data + 3, length - 3, whole);
	return 0;
}
