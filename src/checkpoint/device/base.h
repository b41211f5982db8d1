// Opens the bases of a new image. A base is an earlier image whose packs the new image may use, so that equal blocks
// need not be written again. One thread, except for device_bases_find().
#pragma once
#include "checkpoint/image/device_index.h"

struct device_base {
	struct image_dir dir;
	struct device_index index;
	uint64_t *pack_bytes;
};

struct device_bases {
	struct device_base *list;
	size_t count;
	struct device_found *table; // hash table of blocks, by digest
	size_t capacity;	    // size of the table, a power of 2; 0: there is no table
};

// A block that was found in a base.
struct device_found {
	const struct device_block *block; // NULL: not found
	size_t base;
};

// Opens the images and reads their indices. `paths` must outlive the bases. DENIED (a base fails image_check_owner()),
// NOT_FOUND, INTEGRITY (a base is damaged), NO_MEMORY, SYSTEM. The error names the path of the base. Checks that the
// packs exist and have the right lengths, but does not read their contents.
enum vg_status device_bases_open(const char *const *paths, size_t count, struct device_bases *ret_bases);
void device_bases_close(struct device_bases *bases);
// Adds a base, and takes ownership of its members, also on failure. NO_MEMORY.
enum vg_status device_bases_add(struct device_bases *bases, struct device_base *consume_base);
void device_base_close(struct device_base *base);
// Finds a block by its digest. Any thread.
struct device_found device_bases_find(const struct device_bases *bases, const uint8_t digest[DIGEST_BYTES]);
