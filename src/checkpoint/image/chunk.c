#include "checkpoint/image/chunk.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/data/sum.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

size_t image_chunk_length(const struct image_file *file, size_t index)
{
	uint64_t left = file->raw - (uint64_t)index * file->chunk_bytes;

	return left < file->chunk_bytes ? (size_t)left : file->chunk_bytes;
}

uint64_t *image_chunk_offsets(const struct image_file *file)
{
	uint64_t *offsets = malloc((file->chunk_count + 1) * sizeof *offsets), at = 0;

	for (size_t i = 0; offsets && i < file->chunk_count; i++) {
		offsets[i] = at;
		at += file->compression ? file->chunks[i].stored : file->chunk_bytes;
	}
	return offsets;
}

// Returns whether the range is a hole. SEEK_DATA finds holes without reading them.
static bool is_hole(int fd, uint64_t offset, size_t length)
{
	off_t data = lseek(fd, (off_t)offset, SEEK_DATA);

	return data < 0 ? errno == ENXIO : (uint64_t)data >= offset + length;
}

void image_chunk_expect(int fd, const struct image_file *file, size_t index, uint64_t offset)
{
	uint32_t stored = file->chunks[index].stored;

	// Read the whole chunk ahead with one call, instead of one piece after another.
	if (stored)
		posix_fadvise(fd, (off_t)offset,
			      file->compression ? (off_t)stored : (off_t)image_chunk_length(file, index),
			      POSIX_FADV_WILLNEED);
}

static int load_plain(int fd, const struct image_file *file, size_t index, uint64_t offset, unsigned char *buffer,
		      uint64_t *ret_sum)
{
	unsigned char map[IMAGE_MOST_CHUNK / CHUNK_PAGE / 8];
	size_t length = image_chunk_length(file, index), held = 0;

	// Skip a hole only if the description lists the chunk as a hole. Otherwise a hole could replace data without
	// being noticed.
	if (file->chunks[index].stored == 0 && is_hole(fd, offset, length)) {
		memset(map, 0, chunk_map_bytes(length));
		*ret_sum = sum_bytes(map, chunk_map_bytes(length));
	} else {
		image_chunk_expect(fd, file, index, offset);
		ssize_t got = vg_read_all(fd, buffer, length, (off_t)offset);
		if (got < 0)
			return (int)got;
		held = chunk_examine(buffer, (size_t)got, map, ret_sum);
		if ((size_t)got < length)
			return IMAGE_CHUNK_DAMAGED;
	}
	return held == file->chunks[index].stored && *ret_sum == file->chunks[index].sum ? 0 : IMAGE_CHUNK_DAMAGED;
}

int image_chunk_load(int fd, const struct image_file *file, size_t index, uint64_t offset, unsigned char *buffer,
		     uint64_t *ret_sum)
{
	const struct image_chunk *chunk = &file->chunks[index];

	if (!file->compression)
		return load_plain(fd, file, index, offset, buffer, ret_sum);
	image_chunk_expect(fd, file, index, offset);
	ssize_t got = vg_read_all(fd, buffer, chunk->stored, (off_t)offset);
	if (got < 0)
		return (int)got;
	*ret_sum = sum_bytes(buffer, (size_t)got);
	return (size_t)got == chunk->stored && *ret_sum == chunk->sum ? 0 : IMAGE_CHUNK_DAMAGED;
}

enum vg_status image_chunk_fail(int r, const char *path, const struct image_file *file, size_t index, uint64_t offset,
				uint64_t sum)
{
	char wanted[IMAGE_SUM_TEXT], found[IMAGE_SUM_TEXT];

	if (r < 0)
		return vg_fail(VG_SYSTEM, -r, "%s/%s, at byte %llu: %s", path, file->name, (unsigned long long)offset,
			       strerror(-r));
	image_sum_format(file->chunks[index].sum, wanted);
	image_sum_format(sum, found);
	return vg_fail(VG_INTEGRITY, 0,
		       "%s/%s is damaged: chunk %zu of %zu, from byte %llu on, has checksum %s, not %s", path,
		       file->name, index, file->chunk_count, (unsigned long long)offset, found, wanted);
}
