// Reads and writes the index of an image's device memory, the file "device/index". The index lists the blocks of the
// device memory of each process. It says where each block is in the image's packs: "device/pack-0000" and so on. Packs
// do not change once they are written, so several images can have them in common. Any thread.
#pragma once
#include "checkpoint/data/digest.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	DEVICE_BLOCK = 2 << 20,
	DEVICE_PACK = 1 << 30, // maximum size of a pack that is written
	DEVICE_MOST_PACKS = 10000,
	DEVICE_MOST_BLOCKS = 1 << 24,
	DEVICE_MOST_MEMORIES = 4096,
};
#define DEVICE_DIRECTORY "device"
#define DEVICE_INDEX DEVICE_DIRECTORY "/index"
#define DEVICE_PACK_FORMAT DEVICE_DIRECTORY "/pack-%04u"

enum device_codec { DEVICE_ZERO, DEVICE_RAW, DEVICE_LZ4, DEVICE_CODECS };

// A block, as it is stored in the index, little-endian.
struct device_block {
	uint8_t digest[DIGEST_BYTES]; // BLAKE3 of the block's contents; zeroes for DEVICE_ZERO
	uint64_t sum;		      // XXH3 of the stored bytes
	uint64_t offset;	      // offset in the pack
	uint32_t length;	      // bytes stored in the pack; 0 for DEVICE_ZERO
	uint32_t pack;
	uint32_t codec;
	uint32_t reserved; // must be 0
};

// The device memory of one process, after its pager has moved it to host memory.
struct device_memory {
	uint64_t pid;
	uint64_t bytes; // a multiple of DEVICE_BLOCK
};

struct device_index {
	struct device_memory *memories;
	size_t memory_count;
	struct device_block *blocks; // the blocks of all memories, one memory after another
	size_t block_count;
	unsigned pack_count;
};
void device_index_free(struct device_index *index);
// Returns the index of the memory's first block in the array of blocks.
size_t device_index_first(const struct device_index *index, size_t memory);

// Writes the index into the draft's directory and adds it to the list of its files. Returns 0 or -errno.
int device_index_write(const struct device_index *index, struct image_draft *draft);
// Encodes an index as the contents of the file "device/index". The caller frees them. NULL: no memory.
void *device_index_encode(const struct device_index *index, size_t *ret_length);
// Parses an encoded index. The index must agree with `files`, the files of the image. Returns NULL, or what is wrong,
// as the end of a sentence about the index.
const char *device_index_parse(const void *data, size_t length, const struct image_files *files,
			       struct device_index *ret_index);
// Reads the index of an image and compares its checksum. If the image has no index, *ret_index is empty. SYSTEM,
// NO_MEMORY, INTEGRITY.
enum vg_status device_index_read(const struct image_dir *dir, const struct image_files *files,
				 struct device_index *ret_index);
bool device_has_index(const struct image_files *files);
// Returns whether `name` is the name of a pack.
bool device_name_is_pack(const char *name);

enum { DEVICE_DAMAGED = 1, DEVICE_STORED_MOST = DEVICE_BLOCK };
// Reads the stored bytes of a block from its pack and compares their checksum. `buffer` has room for DEVICE_STORED_MOST
// bytes. Returns 0, -errno or DEVICE_DAMAGED.
int device_block_load(int pack, const struct device_block *block, void *buffer);
// Sets the last error for `r`, the result of device_block_load(). INTEGRITY or SYSTEM.
enum vg_status device_block_fail(int r, const char *path, const struct device_block *block);
// Unpacks the stored bytes of a block into `data`, which has DEVICE_BLOCK bytes. Returns false if the block is damaged.
bool device_block_unpack(const struct device_block *block, const void *stored, void *data);
