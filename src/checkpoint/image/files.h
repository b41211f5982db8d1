// Reads the list of an image's files in virgate.json. Every value in the list is checked before use. Any thread.
#pragma once
#include "virgate/checkpoint.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	IMAGE_SUM_TEXT = 17,
	IMAGE_NAME_TEXT = 5 + 4 + 1 + NAME_MAX + 1, // the longest name: "tree-4095/NAME"
	IMAGE_LEAST_CHUNK = 64 << 10,
	IMAGE_MOST_CHUNK = 64 << 20,
	IMAGE_MOST_FILES = 1 << 20,
};

struct image_chunk {
	uint64_t sum;	 // checksum, see data/chunk.h
	uint32_t stored; // bytes on the disk
};

struct image_file {
	const char *name; // name of the file, such as "tree-0/pages-1.img.lz4"; the description owns it
	uint64_t bytes;	  // length on the disk
	uint64_t stored;  // bytes of the file on the disk that are not holes
	uint64_t raw;	  // length before compression
	enum vg_compression compression;
	uint64_t sum;	      // XXH3 of the whole file, if it has no chunks
	bool is_pack;	      // the file is a pack of device memory; its checksums are in "device/index"
	uint32_t chunk_bytes; // 0: the file has no chunks
	size_t chunk_count;
	struct image_chunk *chunks;
};

struct image_files {
	struct image_file *files; // sorted by name
	size_t count;
	uint64_t bytes, stored, raw; // sums of these members over all files
};
// Reads the list of files. The description must outlive *ret_files. `path` is for messages. INTEGRITY: an entry is
// invalid.
enum vg_status image_files_read(const json_t *description, const char *path, struct image_files *ret_files);
void image_files_free(struct image_files *files);
// Finds a file by its name on the disk. Returns NULL if the list does not have the file.
const struct image_file *image_files_find(const struct image_files *files, const char *name);
// Returns whether the list has all files that a tree of CRIU needs, none of them empty. These include the file that
// CRIU writes last. On false, ret_missing is the first missing file, such as "tree-0/pstree.img".
bool image_tree_is_whole(const struct image_files *files, unsigned tree, pid_t root, char ret_missing[IMAGE_NAME_TEXT]);
uint32_t image_files_largest_chunk(const struct image_files *files);
// Returns the length of the file's name without the suffix for compression.
size_t image_file_length(const struct image_file *file);

// Returns the name of a compression: "none", "lz4" or "zstd".
const char *image_compression_name(enum vg_compression compression);
// Returns the suffix of compressed files: "", ".lz4" or ".zst".
const char *image_compression_suffix(enum vg_compression compression);
void image_sum_format(uint64_t sum, char ret_text[IMAGE_SUM_TEXT]);
// Returns whether `name` is valid: "tree-12/core-1.img", for example, or a file of device memory. A valid name stays
// inside the image. *ret_tree: the number of the tree (12), or 0 for device memory.
bool image_name_is_sound(const char *name, unsigned *ret_tree);
