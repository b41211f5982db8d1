#include "code/fatbin.h"

#include "abi/fatbin.h"
#include "base/lz4.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define LARGEST ((uint64_t)1 << 30)

struct reader {
	const unsigned char *at, *end;
};

// Reads the header of the next entry, and finds the entry's stored contents. Returns 1; 0 at the end; -EBADMSG.
static int next_entry(struct reader *reader, struct fatbin_entry *ret_entry, const unsigned char **ret_stored)
{
	size_t left = (size_t)(reader->end - reader->at);

	if (left < sizeof *ret_entry)
		return 0;
	memcpy(ret_entry, reader->at, sizeof *ret_entry);
	if (ret_entry->header_size < sizeof *ret_entry || ret_entry->header_size > left ||
	    ret_entry->size > left - ret_entry->header_size)
		return -EBADMSG;
	*ret_stored = reader->at + ret_entry->header_size;
	reader->at += ret_entry->header_size + ret_entry->size;
	return 1;
}

// Ranks an entry for the device; a negative rank means that the device cannot run the entry. Machine code runs only on
// its own generation, and ranks above PTX.
static int rank_entry(const struct fatbin_entry *entry, unsigned architecture)
{
	bool elf = entry->kind == FATBIN_ELF, generation = entry->architecture / 10 == architecture / 10;
	bool runs = entry->flags & FATBIN_SPECIFIC ? entry->architecture == architecture
						   : entry->architecture <= architecture && (generation || !elf);

	if (!runs || (!elf && entry->kind != FATBIN_PTX && entry->kind != FATBIN_LTOIR))
		return -1;
	return (int)entry->architecture + (elf ? 1 << 20 : entry->kind == FATBIN_PTX ? 1 << 16 : 0);
}

// Decompresses an entry. *ret_plain is NULL if the entry is not compressed. Returns 0, -EBADMSG or -ENOMEM.
static int decompress(const struct fatbin_entry *entry, const unsigned char *stored, void **ret_plain)
{
	size_t got;

	if (!(entry->flags & (FATBIN_ZSTD | FATBIN_LZ4))) {
		*ret_plain = NULL;
		return 0;
	}
	if (entry->plain_size > LARGEST || entry->plain_size == 0 || entry->compressed_size > entry->size)
		return -EBADMSG;
	void *plain = malloc(entry->plain_size);
	if (!plain)
		return -ENOMEM;
	if (entry->flags & FATBIN_ZSTD)
		got = ZSTD_decompress(plain, entry->plain_size, stored, entry->compressed_size);
	else
		got = vg_lz4_expand(stored, entry->compressed_size, plain, entry->plain_size);
	if (got != entry->plain_size) { // also after an error: an error code is larger than any size
		free(plain);
		return -EBADMSG;
	}
	*ret_plain = plain;
	return 0;
}

static int read_entry(struct code_module *module, const struct fatbin_entry *entry, const unsigned char *stored)
{
	void *plain;

	if (entry->kind == FATBIN_LTOIR) {
		snprintf(module->reason, sizeof module->reason, "it is for a linker (LTO-IR) and no kernel yet");
		return 0;
	}
	int r = decompress(entry, stored, &plain);
	if (r)
		return r;
	const void *data = plain ? plain : stored;
	size_t size = plain ? entry->plain_size : entry->size;
	r = entry->kind == FATBIN_ELF ? code_read_cubin(module, data, size)
				      : code_read_ptx(module, data, strnlen(data, size));
	free(plain);
	return r;
}

// Reads all entries whose rank (rank_entry()) is `best`, the highest one.
static int read_best(struct reader reader, unsigned architecture, int best, struct code_module *modules)
{
	const unsigned char *stored;
	struct fatbin_entry entry;
	int r = 0;

	for (size_t count = 0; r == 0 && next_entry(&reader, &entry, &stored) > 0;)
		if (rank_entry(&entry, architecture) == best)
			r = read_entry(&modules[count++], &entry, stored);
	return r;
}

int code_read_fatbin(const void *data, size_t size, unsigned architecture, struct code_module **ret_modules,
		     size_t *ret_count)
{
	struct fatbin_container head;
	const unsigned char *stored;
	struct fatbin_entry entry;
	int best = -1, r;
	size_t count = 0;

	if (size < sizeof head)
		return -EBADMSG;
	memcpy(&head, data, sizeof head);
	if (head.magic != FATBIN_MAGIC || head.header_size < sizeof head || head.header_size > size ||
	    head.size > size - head.header_size)
		return -EBADMSG;
	const unsigned char *start = (const unsigned char *)data + head.header_size;
	struct reader reader = {start, start + head.size};
	while ((r = next_entry(&reader, &entry, &stored)) > 0) {
		int its = rank_entry(&entry, architecture);
		if (its > best)
			count = 0;
		best = its > best ? its : best;
		count += its >= 0 && its == best;
	}
	if (r || !count)
		return -EBADMSG;
	struct code_module *modules = calloc(count, sizeof *modules);
	if (!modules)
		return -ENOMEM;
	reader.at = start;
	r = read_best(reader, architecture, best, modules);
	*ret_modules = modules; // set after a failure, too: the caller finishes the modules
	*ret_count = count;
	return r;
}
