#include "checkpoint/move/prefill.h"

#include "base/status.h"
#include "checkpoint/device/in.h"
#include "pager/host_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

// Lists the packs that were received. An index must not refer to any other packs.
static enum vg_status list_packs(const struct prefill *prefill, struct image_files *ret_files)
{
	const struct packs *packs = prefill->packs;
	struct image_file *files = calloc(packs->count + 1, sizeof *files);
	char(*names)[32] = calloc(packs->count + 1, sizeof *names);
	struct stat info;

	if (!files || !names) {
		free(files);
		free(names);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu packs", packs->count);
	}
	files[0].name = names[0]; // free_list() frees the array of names through this pointer
	for (size_t i = 0; i < packs->count; i++) {
		snprintf(names[i], sizeof names[i], DEVICE_PACK_FORMAT, (unsigned)i);
		bool is_there = fstatat(packs->store->lock, names[i], &info, AT_SYMLINK_NOFOLLOW) == 0;
		files[i] = (struct image_file){
			.name = names[i], .bytes = is_there ? (uint64_t)info.st_size : 0, .is_pack = true};
	}
	*ret_files = (struct image_files){.files = files, .count = packs->count};
	return VG_OK;
}

static void free_list(struct image_files *files)
{
	if (files->files)
		free((void *)files->files[0].name);
	free(files->files);
}

static enum vg_status parse_index(const struct prefill *prefill, const void *data, size_t length,
				  struct device_index *ret_index)
{
	struct image_files files = {0};

	enum vg_status status = list_packs(prefill, &files);
	if (status)
		return status;
	const char *wrong = device_index_parse(data, length, &files, ret_index);
	free_list(&files);
	return wrong ? vg_fail(VG_INTEGRITY, 0, "the index of a precopy round %s", wrong) : VG_OK;
}

// Looks in the index of the last round for memory with the pid and the size of `memory`. Returns its position in that
// index, or -1 if it is not found or has no file.
static ssize_t find_memory(const struct prefill *prefill, const struct device_memory *memory)
{
	for (size_t i = 0; prefill && i < prefill->index.memory_count; i++)
		if (prefill->index.memories[i].pid == memory->pid && prefill->index.memories[i].bytes == memory->bytes)
			return prefill->fds[i] < 0 ? -1 : (ssize_t)i;
	return -1;
}

// Creates the missing files: one for each memory whose descriptor in `fds` is -1. Creates none if all of them together
// would need more than half of the free space of the file system.
static void make_files(const struct device_index *index, int *fds)
{
	struct statvfs info;
	uint64_t bytes = 0;

	for (size_t i = 0; i < index->memory_count; i++)
		bytes += fds[i] < 0 ? index->memories[i].bytes : 0;
	if (statvfs(PAGER_FILE_DIRECTORY, &info) < 0 || (uint64_t)info.f_bavail * info.f_frsize / 2 < bytes)
		return;
	for (size_t i = 0; i < index->memory_count; i++)
		if (fds[i] < 0)
			fds[i] = pager_file_create();
}

static void close_files(struct prefill *prefill)
{
	for (size_t i = 0; i < prefill->index.memory_count && prefill->fds; i++)
		if (prefill->fds[i] >= 0)
			close(prefill->fds[i]);
	free(prefill->fds);
	prefill->fds = NULL;
}

// Marks the blocks of unchecked packs as missing in the file. Then device_in_fill() reads and checks all blocks of
// these packs, even blocks that the file already has from another pack.
static void forget_unchecked(const struct prefill *prefill, const struct device_block *blocks,
			     struct device_block *have, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (blocks[i].codec != DEVICE_ZERO && !prefill->packs->is_checked[blocks[i].pack])
			have[i] = (struct device_block){.codec = DEVICE_ZERO};
}

static enum vg_status fill_file(const struct prefill *prefill, const struct device_index *index, size_t memory,
				struct device_block *have, int fd, struct phase *phase)
{
	const struct image_dir dir = image_draft_dir(prefill->packs->store);

	if (have)
		forget_unchecked(prefill, index->blocks + device_index_first(index, memory), have,
				 index->memories[memory].bytes / DEVICE_BLOCK);
	return device_in_fill(&dir, index, memory, have, fd, phase, NULL);
}

// Fills a file for each memory of the index. Uses the files of earlier rounds again. Sets have[i] to the blocks that
// the file of memory i already contains.
static enum vg_status fill_files(struct prefill *prefill, const struct device_index *index, int *fds,
				 struct device_block **have, struct phase *phase)
{
	enum vg_status status = VG_OK;

	for (size_t i = 0; i < index->memory_count; i++) {
		ssize_t before = find_memory(prefill, &index->memories[i]);
		fds[i] = before < 0 ? -1 : prefill->fds[before];
		if (before < 0)
			continue;
		have[i] = prefill->index.blocks + device_index_first(&prefill->index, (size_t)before);
		prefill->fds[before] = -1;
	}
	// Close the files that the new index does not use, such as those of processes that have ended. That frees host
	// memory.
	close_files(prefill);
	make_files(index, fds);
	for (size_t i = 0; i < index->memory_count && status == VG_OK; i++) {
		if (fds[i] >= 0)
			status = fill_file(prefill, index, i, have[i], fds[i], phase);
		if (status != VG_INSUFFICIENT)
			continue;
		close(fds[i]); // close the file: the restore then makes and fills a new one, as it does without precopy
		fds[i] = -1;
		status = VG_OK;
	}
	return status;
}

// Marks all packs of the index as checked if every memory has a file. The index of a round lists all blocks of each
// pack. So fill_files() has read all blocks of these packs and compared their checksums.
static void mark_checked(const struct prefill *prefill)
{
	const struct device_index *index = &prefill->index;

	for (size_t i = 0; i < index->memory_count; i++)
		if (prefill->fds[i] < 0)
			return;
	for (size_t i = 0; i < index->block_count; i++)
		if (index->blocks[i].codec != DEVICE_ZERO)
			prefill->packs->is_checked[index->blocks[i].pack] = true;
}

// Removes the packs that the index does not use. These are packs of earlier rounds, whose blocks have changed since.
static void remove_unused(const struct prefill *prefill)
{
	const struct device_index *index = &prefill->index;
	struct packs *packs = prefill->packs;
	bool *is_used = calloc(packs->count + 1, sizeof *is_used);
	struct stat info;
	char name[32];

	for (size_t i = 0; i < index->block_count && is_used; i++)
		if (index->blocks[i].codec != DEVICE_ZERO)
			is_used[index->blocks[i].pack] = true;
	for (size_t i = 0; i < packs->count && is_used; i++) {
		snprintf(name, sizeof name, DEVICE_PACK_FORMAT, (unsigned)i);
		if (is_used[i] || fstatat(packs->store->lock, name, &info, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		packs->is_checked[i] = false;
		if (unlinkat(packs->store->lock, name, 0) == 0)
			packs->bytes -= packs->bytes < (uint64_t)info.st_size ? packs->bytes : (uint64_t)info.st_size;
	}
	free(is_used);
}

enum vg_status prefill_round(void *user, const void *data, size_t length, struct phase *phase)
{
	struct prefill *prefill = user;
	struct device_index index = {0};

	enum vg_status status = parse_index(prefill, data, length, &index);
	if (status)
		return status;
	int *fds = calloc(index.memory_count + 1, sizeof *fds);
	struct device_block **have = calloc(index.memory_count + 1, sizeof *have);
	if (!fds || !have) {
		free(fds);
		free(have);
		device_index_free(&index);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu processes", index.memory_count);
	}
	status = fill_files(prefill, &index, fds, have, phase);
	free(have);
	device_index_free(&prefill->index);
	prefill->index = index;
	prefill->fds = fds;
	if (status == VG_OK) {
		mark_checked(prefill);
		remove_unused(prefill);
	}
	return status;
}

int prefill_find(const struct prefill *prefill, const struct device_memory *memory,
		 const struct device_block **ret_have)
{
	ssize_t place = find_memory(prefill, memory);

	if (place < 0)
		return -1;
	*ret_have = prefill->index.blocks + device_index_first(&prefill->index, (size_t)place);
	return prefill->fds[place];
}

int prefill_take(struct prefill *prefill, const struct device_memory *memory, const struct device_block **ret_have)
{
	ssize_t place = find_memory(prefill, memory);
	int fd = prefill_find(prefill, memory, ret_have);

	if (place >= 0)
		prefill->fds[place] = -1;
	return fd;
}

void prefill_finish(struct prefill *prefill)
{
	close_files(prefill);
	device_index_free(&prefill->index);
}
