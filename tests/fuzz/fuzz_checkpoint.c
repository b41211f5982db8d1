// Any bytes as an image's virgate.json, as its list of files, and as a chunk of pages: refused, or what they say holds
// together. By the first byte.
#include "checkpoint/chunk.h"
#include "checkpoint/image.h"
#include "checkpoint/image_files.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length);

enum { MOST = 64 * CHUNK_PAGE, GUARD = 64 };

static void read_text(const char *text, size_t length)
{
	json_t *description;

	if (image_parse(text, length, "fuzz", "fuzz", &description) == VG_OK)
		json_decref(description);
}

static void read_list(const char *text, size_t length)
{
	json_t *description = json_loadb(text, length, 0, NULL);
	struct image_files files;
	unsigned tree;

	if (description && image_files_read(description, "fuzz", "fuzz", &files) == VG_OK) {
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

// What unpacks is packed again, and unpacks to the same.
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

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length)
{
	if (length < 3)
		return 0;
	size_t whole = (data[1] | (size_t)data[2] << 8) * 4 % MOST + 1;
	if (data[0] % 5 == 0)
		read_text((const char *)data + 3, length - 3);
	else if (data[0] % 5 == 1)
		read_list((const char *)data + 3, length - 3);
	else
		read_chunk((enum vg_compression)(data[0] % 5 - 2), data + 3, length - 3, whole);
	return 0;
}
