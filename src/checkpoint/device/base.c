#include "checkpoint/device/base.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/image/inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// Checks that the packs exist and have the right lengths. Does not read them, so a damaged byte is not found.
static enum vg_status check_packs(const struct image_dir *dir, const struct image_files *files, uint64_t *pack_bytes)
{
	struct stat info;

	for (size_t i = 0, pack = 0; i < files->count; i++) {
		const struct image_file *file = &files->files[i];
		if (!file->is_pack)
			continue;
		// The files are sorted by name, so the packs come in the order of their numbers.
		pack_bytes[pack++] = file->bytes;
		_cleanup_close_ int fd = image_open_file(dir->fd, file->name);
		if (fd < 0 || fstat(fd, &info) < 0)
			return vg_fail(VG_INTEGRITY, fd < 0 ? -fd : errno, "%s/%s: %s", dir->path, file->name,
				       strerror(fd < 0 ? -fd : errno));
		if ((uint64_t)info.st_size != file->bytes)
			return vg_fail(VG_INTEGRITY, 0, "%s/%s is damaged: it has %llu bytes, not %llu", dir->path,
				       file->name, (unsigned long long)info.st_size, (unsigned long long)file->bytes);
	}
	return VG_OK;
}

static enum vg_status read_base(struct device_base *base)
{
	struct image_files files = {0};
	json_t *description = NULL;

	enum vg_status status = image_check_owner(&base->dir);
	if (status)
		goto finish;
	status = inspect_read(&base->dir, &description, &files);
	if (status)
		goto finish;
	status = device_index_read(&base->dir, &files, &base->index);
	if (status)
		goto finish;
	base->pack_bytes = calloc(base->index.pack_count + 1, sizeof *base->pack_bytes);
	if (status)
		goto finish;
	if (!base->pack_bytes)
		status = vg_fail(VG_NO_MEMORY, 0, "no memory for the packs of %s", base->dir.path);
	if (status)
		goto finish;
	status = check_packs(&base->dir, &files, base->pack_bytes);
finish:
	image_files_free(&files);
	json_decref(description);
	return status;
}

static size_t find_place(const struct device_bases *bases, const uint8_t digest[DIGEST_BYTES])
{
	uint64_t hash;
	size_t at;

	memcpy(&hash, digest, sizeof hash);
	for (at = hash & (bases->capacity - 1); bases->table[at].block; at = (at + 1) & (bases->capacity - 1))
		if (memcmp(bases->table[at].block->digest, digest, DIGEST_BYTES) == 0)
			break;
	return at;
}

static enum vg_status make_table(struct device_bases *bases)
{
	size_t blocks = 0, capacity = 64;

	for (size_t i = 0; i < bases->count; i++)
		blocks += bases->list[i].index.block_count;
	while (capacity < 2 * blocks)
		capacity *= 2;
	bases->table = calloc(capacity, sizeof *bases->table);
	if (!bases->table)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu blocks of the base images", blocks);
	bases->capacity = capacity;
	for (size_t i = 0; i < bases->count; i++)
		for (size_t k = 0; k < bases->list[i].index.block_count; k++) {
			const struct device_block *block = &bases->list[i].index.blocks[k];
			if (block->codec == DEVICE_ZERO)
				continue;
			struct device_found *found = &bases->table[find_place(bases, block->digest)];
			if (!found->block)
				*found = (struct device_found){block, i};
		}
	return VG_OK;
}

static enum vg_status name_base(enum vg_status status, const char *path)
{
	struct vg_kept_error kept;

	vg_error_keep(&kept);
	return vg_fail(status, kept.error.code, "base image %s cannot be used: %s", path, kept.text);
}

enum vg_status device_bases_open(const char *const *paths, size_t count, struct device_bases *ret_bases)
{
	struct device_bases bases = {0};
	enum vg_status status = VG_OK;

	bases.list = calloc(count + 1, sizeof *bases.list);
	if (!bases.list)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu base images", count);
	while (bases.count < count && status == VG_OK) {
		const char *path = paths[bases.count];
		struct device_base *base = &bases.list[bases.count++];
		base->dir.fd = -1;
		status = image_open(path, &base->dir);
		if (status == VG_OK)
			status = read_base(base);
		if (status)
			status = name_base(status, path);
	}
	if (status == VG_OK)
		status = make_table(&bases);
	if (status)
		device_bases_close(&bases);
	else
		*ret_bases = bases;
	return status;
}

void device_base_close(struct device_base *base)
{
	device_index_free(&base->index);
	free(base->pack_bytes);
	image_close(&base->dir);
	*base = (struct device_base){.dir.fd = -1};
}

enum vg_status device_bases_add(struct device_bases *bases, struct device_base *consume_base)
{
	struct device_base *grown = realloc(bases->list, (bases->count + 1) * sizeof *grown);

	if (!grown) {
		device_base_close(consume_base);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for another base");
	}
	bases->list = grown;
	grown[bases->count++] = *consume_base;
	*consume_base = (struct device_base){.dir.fd = -1};
	free(bases->table);
	bases->table = NULL;
	bases->capacity = 0;
	return make_table(bases);
}

void device_bases_close(struct device_bases *bases)
{
	for (size_t i = 0; i < bases->count; i++)
		device_base_close(&bases->list[i]);
	free(bases->list);
	free(bases->table);
	*bases = (struct device_bases){0};
}

struct device_found device_bases_find(const struct device_bases *bases, const uint8_t digest[DIGEST_BYTES])
{
	return bases->capacity ? bases->table[find_place(bases, digest)] : (struct device_found){0};
}
