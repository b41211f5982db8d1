// The files of an image, as virgate.json lists them: nothing it says is believed before it was looked at. Any thread.
#pragma once
#include "virgate/checkpoint.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	IMAGE_SUM_TEXT = 17,
	IMAGE_NAME_TEXT = 5 + 4 + 1 + NAME_MAX + 1, // "tree-4095/NAME"
	IMAGE_LEAST_CHUNK = 64 << 10,
	IMAGE_MOST_CHUNK = 64 << 20,
	IMAGE_MOST_FILES = 1 << 20,
};

struct image_chunk {
	uint64_t sum;	 // see chunk.h
	uint32_t stored; // bytes that lie on the disk for it
};

struct image_file {
	const char *name; // "tree-0/pages-1.img.lz4"; the description's
	uint64_t bytes;	  // how long it is on the disk
	uint64_t stored;  // how many of them are there: the others are holes
	uint64_t raw;	  // what CRIU wrote
	enum vg_compression compression;
	uint64_t sum;	      // XXH3 of all of it, where there are no chunks
	bool is_pack;	      // of device memory: checksums are in "device/index"
	uint32_t chunk_bytes; // 0: it has none
	size_t chunk_count;
	struct image_chunk *chunks;
};

struct image_files {
	struct image_file *files; // by name
	size_t count;
	uint64_t bytes, stored, raw; // of all
};
// INTEGRITY: what in it makes no sense. The description must outlive the list. `path`: what errors call the image.
enum vg_status image_files_read(const json_t *description, const char *path, struct image_files *ret_files);
void image_files_free(struct image_files *files);
// NULL: there is none. `name` as on the disk.
const struct image_file *image_files_find(const struct image_files *files, const char *name);
// Whether the files that no tree of CRIU's is without are in the list, the one that it writes last among them, and have
// something in them. False: the first that is not, as "tree-0/pstree.img".
bool image_tree_is_whole(const struct image_files *files, unsigned tree, pid_t root, char ret_missing[IMAGE_NAME_TEXT]);
uint32_t image_files_largest_chunk(const struct image_files *files);
// How long the name is by which CRIU knows the file: without what compression adds.
size_t image_file_length(const struct image_file *file);

// "none", "lz4", "zstd".
const char *image_compression_name(enum vg_compression compression);
// "", ".lz4", ".zst".
const char *image_compression_suffix(enum vg_compression compression);
void image_sum_format(uint64_t sum, char ret_text[IMAGE_SUM_TEXT]);
// "tree-12/core-1.img", or of device memory: such a name, and nothing that leads elsewhere. True: it is one; *ret_tree:
// 12, or 0 for device memory.
bool image_name_is_sound(const char *name, unsigned *ret_tree);
