#include "checkpoint/image/device_index.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/data/sum.h"
#include "checkpoint/image/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x5844495645444756) // "VGDEVIDX"
enum {
	VERSION = 1,
	MOST_BYTES = 4096 + DEVICE_MOST_MEMORIES * sizeof(struct device_memory) +
		     DEVICE_MOST_BLOCKS * sizeof(struct device_block),
};

struct header {
	uint64_t magic;
	uint32_t version, block_bytes;
	uint32_t memory_count, pack_count;
	uint64_t block_count;
};
_Static_assert(sizeof(struct header) == 32 && sizeof(struct device_memory) == 16 && sizeof(struct device_block) == 64,
	       "the format of the file");

void device_index_free(struct device_index *index)
{
	free(index->memories);
	free(index->blocks);
	*index = (struct device_index){0};
}

size_t device_index_first(const struct device_index *index, size_t memory)
{
	size_t first = 0;

	for (size_t i = 0; i < memory; i++)
		first += index->memories[i].bytes / DEVICE_BLOCK;
	return first;
}

bool device_has_index(const struct image_files *files)
{
	return image_files_find(files, DEVICE_INDEX) != NULL;
}

// Parses the name of a pack, which contains four digits. Returns false if it is not the name of a pack.
static bool read_pack_name(const char *name, unsigned *ret_pack)
{
	char again[32];
	unsigned pack;

	if (sscanf(name, DEVICE_DIRECTORY "/pack-%4u", &pack) != 1)
		return false;
	snprintf(again, sizeof again, DEVICE_PACK_FORMAT, pack);
	*ret_pack = pack;
	return strcmp(name, again) == 0;
}

bool device_name_is_pack(const char *name)
{
	unsigned pack;

	return read_pack_name(name, &pack);
}

// ---- writing -------------------------------------------------------------------------------------------

static size_t size_of(const struct device_index *index)
{
	return sizeof(struct header) + index->memory_count * sizeof *index->memories +
	       index->block_count * sizeof *index->blocks;
}

void *device_index_encode(const struct device_index *index, size_t *ret_length)
{
	const struct header header = {.magic = MAGIC,
				      .version = VERSION,
				      .block_bytes = DEVICE_BLOCK,
				      .memory_count = (uint32_t)index->memory_count,
				      .pack_count = index->pack_count,
				      .block_count = index->block_count};
	size_t memory_bytes = index->memory_count * sizeof *index->memories;
	char *data = malloc(size_of(index));

	*ret_length = size_of(index);
	if (!data)
		return NULL;
	memcpy(data, &header, sizeof header);
	memcpy(data + sizeof header, index->memories, memory_bytes);
	memcpy(data + sizeof header + memory_bytes, index->blocks, index->block_count * sizeof *index->blocks);
	return data;
}

static int add_to_draft(struct image_draft *draft, const void *data, size_t length)
{
	char sum[IMAGE_SUM_TEXT];

	image_sum_format(sum_bytes(data, length), sum);
	draft->sizes.raw += length;
	draft->sizes.stored += length;
	return json_array_append_new(draft->files, json_pack("{s:s, s:I, s:s}", "name", DEVICE_INDEX, "bytes",
							     (json_int_t)length, "xxh3", sum))
		       ? -ENOMEM
		       : 0;
}

int device_index_write(const struct device_index *index, struct image_draft *draft)
{
	_cleanup_close_ int fd = openat(draft->lock, DEVICE_INDEX, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	size_t length;

	if (fd < 0)
		return -errno;
	void *data = device_index_encode(index, &length);
	int r = data ? vg_write_all(fd, data, length, 0) : -ENOMEM;
	if (r == 0)
		r = add_to_draft(draft, data, length);
	free(data);
	return r;
}

// ---- reading -------------------------------------------------------------------------------------------

static const char *check_header(const struct header *header, size_t length)
{
	if (header->magic != MAGIC)
		return "is none";
	if (header->version != VERSION)
		return "has another version";
	if (header->block_bytes != DEVICE_BLOCK)
		return "has another size of blocks";
	if (header->memory_count == 0 || header->memory_count > DEVICE_MOST_MEMORIES ||
	    header->pack_count > DEVICE_MOST_PACKS || header->block_count > DEVICE_MOST_BLOCKS)
		return "has an invalid count";
	if (length != sizeof *header + header->memory_count * sizeof(struct device_memory) +
			      header->block_count * sizeof(struct device_block))
		return "has another length than its counts say";
	return NULL;
}

static const char *check_memories(const struct device_index *index)
{
	uint64_t blocks = 0;

	for (size_t i = 0; i < index->memory_count; i++) {
		const struct device_memory *memory = &index->memories[i];
		if (memory->pid == 0 || memory->pid > INT32_MAX)
			return "names an invalid process";
		for (size_t k = 0; k < i; k++)
			if (index->memories[k].pid == memory->pid)
				return "names a process twice";
		if (memory->bytes % DEVICE_BLOCK || memory->bytes / DEVICE_BLOCK > DEVICE_MOST_BLOCKS)
			return "has memory of an invalid size";
		blocks += memory->bytes / DEVICE_BLOCK;
	}
	return blocks == index->block_count ? NULL : "has more or fewer blocks than the memory";
}

// Checks that the image has all packs from number 0 on, each once. *ret_bytes: the size of each pack. Returns NULL, or
// what is wrong.
static const char *check_packs(const struct device_index *index, const struct image_files *files, uint64_t *ret_bytes)
{
	unsigned count = 0, pack;

	for (size_t i = 0; i < files->count; i++)
		if (read_pack_name(files->files[i].name, &pack)) {
			if (pack >= index->pack_count)
				return "does not know all packs of the image";
			ret_bytes[pack] = files->files[i].bytes;
			count++;
		}
	return count == index->pack_count ? NULL : "names a pack that the image lacks";
}

static bool is_zero_block(const struct device_block *block)
{
	static const struct device_block zero;

	return memcmp(block, &zero, sizeof zero) == 0;
}

static const char *check_block(const struct device_index *index, const uint64_t *pack_bytes,
			       const struct device_block *block)
{
	switch (block->codec) {
	case DEVICE_ZERO:
		return is_zero_block(block) ? NULL : "has an invalid block of zeroes";
	case DEVICE_RAW:
		if (block->length != DEVICE_BLOCK)
			return "has a block of an invalid length";
		break;
	case DEVICE_LZ4:
		if (block->length == 0 || block->length >= DEVICE_BLOCK)
			return "has a block of an invalid length";
		break;
	default:
		return "has a block of an unknown codec";
	}
	if (block->reserved || block->pack >= index->pack_count)
		return "has a block of no pack";
	if (block->length > pack_bytes[block->pack] || block->offset > pack_bytes[block->pack] - block->length)
		return "has a block behind the end of its pack";
	return NULL;
}

static const char *check_index(const struct device_index *index, const struct image_files *files)
{
	uint64_t *pack_bytes = calloc(index->pack_count + 1, sizeof *pack_bytes);
	const char *wrong = pack_bytes ? check_memories(index) : "needs more memory than there is";

	if (!wrong)
		wrong = check_packs(index, files, pack_bytes);
	for (size_t i = 0; i < index->block_count && !wrong; i++)
		wrong = check_block(index, pack_bytes, &index->blocks[i]);
	free(pack_bytes);
	return wrong;
}

const char *device_index_parse(const void *data, size_t length, const struct image_files *files,
			       struct device_index *ret_index)
{
	const char *bytes = data, *wrong;
	struct device_index index = {0};
	struct header header;

	if (length < sizeof header)
		return "is too short";
	memcpy(&header, bytes, sizeof header);
	wrong = check_header(&header, length);
	if (wrong)
		return wrong;
	index.memory_count = header.memory_count;
	index.block_count = header.block_count;
	index.pack_count = header.pack_count;
	index.memories = malloc(index.memory_count * sizeof *index.memories + 1);
	index.blocks = malloc(index.block_count * sizeof *index.blocks + 1);
	if (index.memories && index.blocks) {
		bytes += sizeof header;
		memcpy(index.memories, bytes, index.memory_count * sizeof *index.memories);
		bytes += index.memory_count * sizeof *index.memories;
		memcpy(index.blocks, bytes, index.block_count * sizeof *index.blocks);
		wrong = check_index(&index, files);
	} else {
		wrong = "needs more memory than there is";
	}
	if (wrong)
		device_index_free(&index);
	else
		*ret_index = index;
	return wrong;
}

static enum vg_status parse_file(const struct image_dir *dir, const struct image_files *files, const void *data,
				 struct device_index *ret_index)
{
	const struct image_file *file = image_files_find(files, DEVICE_INDEX);
	const char *wrong = file->chunk_bytes || sum_bytes(data, file->bytes) != file->sum
				    ? "has another checksum than " IMAGE_DESCRIPTION " says"
				    : device_index_parse(data, file->bytes, files, ret_index);

	return wrong ? vg_fail(VG_INTEGRITY, 0, "%s/" DEVICE_INDEX " is damaged: it %s", dir->path, wrong) : VG_OK;
}

enum vg_status device_index_read(const struct image_dir *dir, const struct image_files *files,
				 struct device_index *ret_index)
{
	const struct image_file *file = image_files_find(files, DEVICE_INDEX);
	enum vg_status status;
	ssize_t length;

	*ret_index = (struct device_index){0};
	if (!file)
		return VG_OK;
	if (file->bytes > MOST_BYTES)
		return vg_fail(VG_INTEGRITY, 0, "%s/" DEVICE_INDEX " is larger than it is at most in an image",
			       dir->path);
	_cleanup_close_ int fd = image_open_file(dir->fd, DEVICE_INDEX);
	if (fd < 0)
		return vg_fail(fd == -ENOENT ? VG_INTEGRITY : VG_SYSTEM, -fd, "%s/" DEVICE_INDEX ": %s", dir->path,
			       strerror(-fd));
	void *data = malloc(file->bytes + 1);
	if (!data)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %s/" DEVICE_INDEX, dir->path);
	length = vg_read_all(fd, data, file->bytes + 1, 0);
	if (length < 0)
		status = vg_fail(VG_SYSTEM, (int)-length, "%s/" DEVICE_INDEX ": %s", dir->path, strerror((int)-length));
	else if ((uint64_t)length != file->bytes)
		status =
			vg_fail(VG_INTEGRITY, 0,
				"%s/" DEVICE_INDEX " is damaged: it has another length than " IMAGE_DESCRIPTION " says",
				dir->path);
	else
		status = parse_file(dir, files, data, ret_index);
	free(data);
	return status;
}

// ---- blocks --------------------------------------------------------------------------------------------

int device_block_load(int pack, const struct device_block *block, void *buffer)
{
	ssize_t length = vg_read_all(pack, buffer, block->length, (off_t)block->offset);

	if (length < 0)
		return (int)length;
	return (size_t)length == block->length && sum_bytes(buffer, block->length) == block->sum ? 0 : DEVICE_DAMAGED;
}

enum vg_status device_block_fail(int r, const char *path, const struct device_block *block)
{
	char name[32];

	snprintf(name, sizeof name, DEVICE_PACK_FORMAT, (unsigned)block->pack);
	if (r < 0)
		return vg_fail(VG_SYSTEM, -r, "%s/%s: %s", path, name, strerror(-r));
	return vg_fail(
		VG_INTEGRITY, 0,
		"%s/%s is damaged: the block of %u bytes from byte %llu on has another checksum than " DEVICE_INDEX
		" says",
		path, name, (unsigned)block->length, (unsigned long long)block->offset);
}

bool device_block_unpack(const struct device_block *block, const void *stored, void *data)
{
	if (block->codec == DEVICE_ZERO)
		memset(data, 0, DEVICE_BLOCK);
	else if (block->codec == DEVICE_RAW)
		memcpy(data, stored, DEVICE_BLOCK);
	else
		return LZ4_decompress_safe(stored, data, (int)block->length, DEVICE_BLOCK) == DEVICE_BLOCK;
	return true;
}
