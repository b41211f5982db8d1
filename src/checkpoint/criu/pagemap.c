#include "checkpoint/criu/pagemap.h"

#include "checkpoint/criu/records.h"
#include "checkpoint/data/chunk.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// CRIU's magic numbers.
enum { PAGEMAP_MAGIC = 0x56084025, MM_MAGIC = 0x57492820 };
enum { PAGES_LAZY = 1 << 1, PAGES_PRESENT = 1 << 2 };
enum { AREA_REGULAR = 1 << 0, AREA_STACK = 1 << 1, AREA_HEAP = 1 << 5, AREA_ANONYMOUS_PRIVATE = 1 << 9 };
// Largest size of an encoded entry: a key and a number for each of four fields.
enum { ENTRY_MOST_BYTES = sizeof(uint32_t) + 4 * 11 };

static int read_head(struct criu_reader *file, uint32_t *ret_id)
{
	struct criu_reader head;
	struct criu_field field;

	if (file->broken || !criu_image_record(file, &head) || !criu_image_field(&head, &field) || field.number != 1 ||
	    field.has_length || field.value > UINT32_MAX || head.at != head.end)
		return -EBADMSG;
	*ret_id = (uint32_t)field.value;
	return 0;
}

int pagemap_pages_id(const void *pagemap, size_t length, uint32_t *ret_id)
{
	struct criu_reader file = criu_image_open(pagemap, length, PAGEMAP_MAGIC);

	return read_head(&file, ret_id);
}

// ---- reading ----------------------------------------------------------------------------------------

struct entry {
	uint64_t address, pages, flags;
	bool long_count; // CRIU 4.2 and later put the number of pages into field 5, not into field 2
};

// A range of addresses. Lists of areas are sorted by address, as CRIU writes them.
struct area {
	uint64_t begin, end;
};

struct thinner {
	const struct image_file *file;
	struct entry *entries;
	size_t entry_count;
	struct area *areas; // areas whose pages are zero unless CRIU restores them
	size_t area_count;
	bool *without;
	struct entry kept; // the last entry, which may still grow and is not written yet
	unsigned char *out;
	size_t length; // bytes written to `out`
};

static int read_entry(struct criu_reader *record, struct entry *ret_entry)
{
	uint64_t count = 0, compatible = 0;
	struct criu_field field;

	*ret_entry = (struct entry){0};
	while (criu_image_field(record, &field)) {
		if (field.has_length)
			return -EBADMSG;
		switch (field.number) {
		case 1:
			ret_entry->address = field.value;
			break;
		case 2:
			compatible = field.value;
			break;
		case 4:
			ret_entry->flags = field.value;
			break;
		case 5:
			count = field.value;
			ret_entry->long_count = true;
			break;
		default:
			return -EBADMSG; // the entry refers to a parent image, or comes from a later version of CRIU
		}
	}
	ret_entry->pages = ret_entry->long_count ? count : compatible;
	if (record->broken || (ret_entry->long_count && compatible) || !(ret_entry->flags & PAGES_PRESENT) ||
	    ret_entry->flags & ~(uint64_t)(PAGES_PRESENT | PAGES_LAZY) || ret_entry->address % CHUNK_PAGE)
		return -EBADMSG;
	return 0;
}

static int read_entries(struct thinner *thinner, struct criu_reader *file)
{
	uint64_t pages = 0, last = 0, all = thinner->file->raw / CHUNK_PAGE;
	struct criu_reader record;
	size_t most = (size_t)(file->end - file->at) / sizeof(uint32_t) + 1;

	thinner->entries = calloc(most, sizeof *thinner->entries);
	if (!thinner->entries)
		return -ENOMEM;
	while (criu_image_record(file, &record)) {
		struct entry *entry = &thinner->entries[thinner->entry_count++];
		if (read_entry(&record, entry) || entry->pages == 0 || entry->pages > all - pages ||
		    entry->address < last || entry->pages > (UINT64_MAX - entry->address) / CHUNK_PAGE)
			return -EBADMSG;
		pages += entry->pages;
		last = entry->address + entry->pages * CHUNK_PAGE;
	}
	return file->broken || pages != all || thinner->file->raw % CHUNK_PAGE ? -EBADMSG : 0;
}

static int read_area(struct criu_reader *record, struct thinner *thinner)
{
	struct area area = {0};
	uint64_t flags = 0, status = 0;
	struct criu_field field;

	while (criu_image_field(record, &field)) {
		if (field.number == 1)
			area.begin = field.value;
		else if (field.number == 2)
			area.end = field.value;
		else if (field.number == 6)
			flags = field.value;
		else if (field.number == 7)
			status = field.value;
	}
	if (record->broken)
		return -EBADMSG;
	if (!(status & AREA_ANONYMOUS_PRIVATE) || flags & MAP_HUGETLB ||
	    status & ~(uint64_t)(AREA_REGULAR | AREA_STACK | AREA_HEAP | AREA_ANONYMOUS_PRIVATE))
		return 0;
	if (area.end <= area.begin || (thinner->area_count && thinner->areas[thinner->area_count - 1].end > area.begin))
		return -EBADMSG;
	thinner->areas[thinner->area_count++] = area;
	return 0;
}

static int read_areas(struct thinner *thinner, const void *mm, size_t length)
{
	struct criu_reader file = criu_image_open(mm, length, MM_MAGIC), record;
	struct criu_field field;
	int r = 0;

	if (file.broken || !criu_image_record(&file, &record) || file.at != file.end)
		return -EBADMSG;
	thinner->areas = calloc(length / 2 + 1, sizeof *thinner->areas);
	if (!thinner->areas)
		return -ENOMEM;
	while (r == 0 && criu_image_field(&record, &field))
		if (field.number == 14)
			r = field.has_length ? read_area(&field.bytes, thinner) : -EBADMSG;
	return record.broken ? -EBADMSG : r;
}

// ---- writing ----------------------------------------------------------------------------------------

// A function that is called for each part of a pagemap entry. An entry is divided where a new chunk begins.
typedef void piece_fn(struct thinner *thinner, size_t chunk, const struct entry *piece);

static void for_pieces(struct thinner *thinner, piece_fn *each)
{
	const uint64_t chunk_pages = thinner->file->chunk_bytes / CHUNK_PAGE;
	uint64_t at = 0;

	for (size_t i = 0; i < thinner->entry_count; i++) {
		struct entry rest = thinner->entries[i];
		while (rest.pages > 0) {
			uint64_t room = chunk_pages - at % chunk_pages;
			struct entry piece = rest;
			if (piece.pages > room)
				piece.pages = room;
			each(thinner, (size_t)(at / chunk_pages), &piece);
			at += piece.pages;
			rest.address += piece.pages * CHUNK_PAGE;
			rest.pages -= piece.pages;
		}
	}
}

static bool is_zero_by_itself(const struct thinner *thinner, uint64_t begin, uint64_t end)
{
	size_t low = 0, high = thinner->area_count;

	// Find the first area that ends after `begin`, and then the areas adjacent to it.
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (thinner->areas[middle].end > begin)
			high = middle;
		else
			low = middle + 1;
	}
	for (; low < thinner->area_count && thinner->areas[low].begin <= begin; low++) {
		begin = thinner->areas[low].end;
		if (begin >= end)
			return true;
	}
	return false;
}

static void keep_where_needed(struct thinner *thinner, size_t chunk, const struct entry *piece)
{
	if (thinner->without[chunk] &&
	    !is_zero_by_itself(thinner, piece->address, piece->address + piece->pages * CHUNK_PAGE))
		thinner->without[chunk] = false;
}

static void write_number(struct thinner *thinner, unsigned field, uint64_t value)
{
	unsigned char *at = thinner->out + thinner->length;

	*at++ = (unsigned char)(field << 3);
	for (; value >= 0x80; value >>= 7)
		*at++ = (unsigned char)(value | 0x80);
	*at++ = (unsigned char)value;
	thinner->length = (size_t)(at - thinner->out);
}

static void write_kept(struct thinner *thinner)
{
	const struct entry *kept = &thinner->kept;
	size_t begin = thinner->length;

	if (kept->pages == 0)
		return;
	thinner->length += sizeof(uint32_t);
	write_number(thinner, 1, kept->address);
	write_number(thinner, 2, kept->long_count ? 0 : kept->pages);
	write_number(thinner, 4, kept->flags);
	if (kept->long_count)
		write_number(thinner, 5, kept->pages);
	uint32_t bytes = htole32((uint32_t)(thinner->length - begin - sizeof bytes));
	memcpy(thinner->out + begin, &bytes, sizeof bytes);
}

static void add_piece(struct thinner *thinner, size_t chunk, const struct entry *piece)
{
	struct entry *kept = &thinner->kept;

	if (thinner->without[chunk])
		return;
	if (kept->address + kept->pages * CHUNK_PAGE == piece->address && kept->flags == piece->flags &&
	    kept->long_count == piece->long_count) {
		kept->pages += piece->pages;
		return;
	}
	write_kept(thinner);
	*kept = *piece;
}

static int thin_pages(struct thinner *thinner, const void *pagemap, size_t length, const void *mm, size_t mm_length)
{
	struct criu_reader file = criu_image_open(pagemap, length, PAGEMAP_MAGIC);
	const struct image_file *pages = thinner->file;
	uint32_t id;

	int r = pages->chunk_bytes == 0 || pages->chunk_bytes % CHUNK_PAGE ? -EBADMSG : read_head(&file, &id);
	size_t head = (size_t)(file.at - (const unsigned char *)pagemap);
	r = r ? r : read_entries(thinner, &file);
	r = r ? r : read_areas(thinner, mm, mm_length);
	if (r)
		return r;
	thinner->without = calloc(pages->chunk_count + 1, sizeof *thinner->without);
	// Allocate enough for the case that each chunk splits an entry.
	thinner->out = malloc(head + (thinner->entry_count + pages->chunk_count) * ENTRY_MOST_BYTES);
	if (!thinner->without || !thinner->out)
		return -ENOMEM;
	for (size_t i = 0; i < pages->chunk_count; i++)
		thinner->without[i] = pages->chunks[i].stored == 0;
	for_pieces(thinner, keep_where_needed);
	memcpy(thinner->out, pagemap, head);
	thinner->length = head;
	for_pieces(thinner, add_piece);
	write_kept(thinner);
	return 0;
}

int pagemap_thin(const void *pagemap, size_t length, const void *mm, size_t mm_length, const struct image_file *pages,
		 unsigned char **ret_pagemap, size_t *ret_length, bool **ret_without)
{
	struct thinner thinner = {.file = pages};

	int r = thin_pages(&thinner, pagemap, length, mm, mm_length);
	free(thinner.entries);
	free(thinner.areas);
	if (r) {
		free(thinner.without);
		free(thinner.out);
		return r;
	}
	*ret_pagemap = thinner.out;
	*ret_length = thinner.length;
	*ret_without = thinner.without;
	return 0;
}
