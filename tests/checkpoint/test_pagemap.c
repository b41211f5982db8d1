// Tests the removal of zero pages from pagemaps, CRIU's lists of pages. CRIU must get every page that it needs, and no
// page that is zero anyway.
#include "checkpoint/criu/pagemap.h"
#include "checkpoint/data/chunk.h"

#include <sys/mman.h>

#include "checkpoint_test.h"

enum { CHUNK = IMAGE_LEAST_CHUNK, CHUNK_PAGES = CHUNK / CHUNK_PAGE, MOST_PAGES = 4096, MOST_ENTRIES = 512 };
enum { PRESENT = 4, LAZY = 2, IN_PARENT = 1 };
// Kinds of memory areas, by CRIU's status bits.
enum { REGULAR = 1, STACK = 2, HEAP = 32, OF_FILE = 64, SHARED = 256, ANONYMOUS = 512, AIO_RING = 1 << 13 };

static uint64_t seed = 88172645463325252u;

static uint64_t random_below(uint64_t bound)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % bound;
}

// ---- CRIU's files, written -----------------------------------------------------------------------------------

struct bytes {
	unsigned char data[1 << 16];
	size_t length;
};

static void put(struct bytes *bytes, const void *data, size_t length)
{
	CHECK(bytes->length + length <= sizeof bytes->data);
	memcpy(bytes->data + bytes->length, data, length);
	bytes->length += length;
}

static void put_word(struct bytes *bytes, uint32_t word)
{
	put(bytes, &word, sizeof word);
}

static void put_number(struct bytes *bytes, uint64_t value)
{
	for (; value >= 128; value /= 128)
		put(bytes, &(unsigned char){(unsigned char)(128 + value % 128)}, 1);
	put(bytes, &(unsigned char){(unsigned char)value}, 1);
}

static void put_field(struct bytes *bytes, unsigned number, uint64_t value)
{
	put_number(bytes, number * 8);
	put_number(bytes, value);
}

static void put_record(struct bytes *bytes, const struct bytes *record)
{
	put_word(bytes, (uint32_t)record->length);
	put(bytes, record->data, record->length);
}

static struct bytes pagemap, record, mm, areas, inner;

static void begin_pagemap(uint32_t id)
{
	pagemap.length = record.length = 0;
	put_word(&pagemap, 0x54564319);
	put_word(&pagemap, 0x56084025);
	put_field(&record, 1, id);
	put_record(&pagemap, &record);
}

static void add_entry(uint64_t address, uint64_t pages, uint64_t flags, bool long_count)
{
	record.length = 0;
	put_field(&record, 1, address);
	put_field(&record, 2, long_count ? 0 : pages);
	put_field(&record, 4, flags);
	if (long_count)
		put_field(&record, 5, pages);
	put_record(&pagemap, &record);
}

static void begin_mm(void)
{
	areas.length = 0;
	for (unsigned field = 1; field <= 12; field++)
		put_field(&areas, field, 0x7fff00000000 + field);
}

static void add_area(uint64_t begin, uint64_t end, uint64_t status, uint64_t flags)
{
	inner.length = 0;
	put_field(&inner, 1, begin);
	put_field(&inner, 2, end);
	put_field(&inner, 3, 0);
	put_field(&inner, 6, flags);
	put_field(&inner, 7, status);
	put_field(&inner, 8, 1); // the field is encoded so that 1 stands for -1
	put_number(&areas, 14 * 8 + 2);
	put_number(&areas, inner.length);
	put(&areas, inner.data, inner.length);
}

static void end_mm(void)
{
	mm.length = 0;
	put_word(&mm, 0x54564319);
	put_word(&mm, 0x57492820);
	put_record(&mm, &areas);
}

// ---- reading pagemaps ----------------------------------------------------------------------------------------

static uint64_t get_number(const unsigned char **at)
{
	uint64_t value = 0;
	unsigned shift = 0;

	do
		value |= (uint64_t)(**at & 127) << shift, shift += 7;
	while (*(*at)++ >= 128);
	return value;
}

// Returns the addresses of all pages in the pagemap, in order.
static size_t read_pages(const unsigned char *data, size_t length, uint32_t id, uint64_t *ret_pages)
{
	const unsigned char *at = data + 8, *end = data + length;
	size_t count = 0;

	for (bool head = true; at < end; head = false) {
		uint32_t size;
		uint64_t fields[6] = {0};
		memcpy(&size, at, sizeof size);
		at += sizeof size;
		const unsigned char *behind = at + size;
		while (at < behind) {
			uint64_t key = get_number(&at);
			CHECK(key % 8 == 0 && key / 8 < 6);
			fields[key / 8] = get_number(&at);
		}
		CHECK(at == behind);
		if (head)
			CHECK_INT(fields[1], id);
		for (uint64_t i = 0; !head && i < fields[2] + fields[5]; i++) {
			CHECK(count < MOST_PAGES);
			ret_pages[count++] = fields[1] + i * CHUNK_PAGE;
		}
		CHECK(head || fields[2] == 0 || fields[5] == 0);
	}
	return count;
}

// ---- any pagemap ---------------------------------------------------------------------------------------------

static struct image_chunk chunks[MOST_PAGES / CHUNK_PAGES + 1];

static struct image_file file_of(size_t pages)
{
	return (struct image_file){.name = "tree-0/pages-7.img",
				   .raw = pages * CHUNK_PAGE,
				   .chunk_bytes = CHUNK,
				   .chunk_count = (pages + CHUNK_PAGES - 1) / CHUNK_PAGES,
				   .chunks = chunks};
}

static int thin(const struct image_file *file, unsigned char **ret_out, size_t *ret_length, bool **ret_without)
{
	return pagemap_thin(pagemap.data, pagemap.length, mm.data, mm.length, file, ret_out, ret_length, ret_without);
}

static bool is_own(uint64_t status, uint64_t flags)
{
	return status & ANONYMOUS && !(status & (AIO_RING | SHARED | OF_FILE)) && !(flags & MAP_HUGETLB);
}

static void check_any(void)
{
	static const uint64_t kinds[] = {REGULAR | ANONYMOUS, REGULAR | ANONYMOUS | HEAP,
					 REGULAR | OF_FILE,   REGULAR | ANONYMOUS | STACK,
					 REGULAR | SHARED,    REGULAR | ANONYMOUS | AIO_RING};
	static uint64_t pages[MOST_PAGES], left[MOST_PAGES];
	static bool own[MOST_PAGES];
	uint64_t address = 0x10000 + random_below(1 << 20) * CHUNK_PAGE;
	bool long_count = random_below(2);
	size_t count = 0, all = 1 + random_below(MOST_PAGES - 1);

	begin_pagemap(7);
	begin_mm();
	for (unsigned entries = 0; count < all && entries < MOST_ENTRIES; entries++) {
		uint64_t status = kinds[random_below(6)], flags = random_below(8) ? 0 : MAP_HUGETLB, begin = address;
		for (unsigned i = 0; i < 1 + random_below(3) && count < all; i++) {
			uint64_t some = 1 + random_below(random_below(4) ? 8 : 4 * CHUNK_PAGES);
			some = some > all - count ? all - count : some;
			add_entry(address, some, random_below(4) ? PRESENT : PRESENT | LAZY, long_count);
			for (uint64_t k = 0; k < some; k++, address += CHUNK_PAGE) {
				own[count] = is_own(status, flags);
				pages[count++] = address;
			}
			address += random_below(3) * CHUNK_PAGE;
		}
		add_area(begin, address, status, flags);
		address += random_below(3) ? 0 : 16 * CHUNK_PAGE;
	}
	// Add an entry for a guard page. CRIU lists guard pages like memory areas, but after all areas.
	add_area(0x1000, 0x2000, 1 << 16, 0);
	end_mm();
	struct image_file file = file_of(count);
	for (size_t i = 0; i < file.chunk_count; i++)
		chunks[i].stored = random_below(2) ? 0 : CHUNK_PAGE;
	unsigned char *out;
	size_t length, kept = 0;
	bool *without;
	CHECK_INT(thin(&file, &out, &length, &without), 0);
	CHECK(length <= pagemap.length + file.chunk_count * 64);
	size_t left_count = read_pages(out, length, 7, left);
	for (size_t chunk = 0; chunk < file.chunk_count; chunk++) {
		bool needed = chunks[chunk].stored > 0;
		size_t end = (chunk + 1) * CHUNK_PAGES < count ? (chunk + 1) * CHUNK_PAGES : count;
		for (size_t i = chunk * CHUNK_PAGES; i < end; i++)
			needed |= !own[i];
		CHECK(without[chunk] == !needed);
		for (size_t i = chunk * CHUNK_PAGES; i < end && needed; i++)
			CHECK(kept < left_count && left[kept++] == pages[i]);
	}
	CHECK_INT(left_count, kept);
	free(out);
	free(without);
}

TEST(only_needed_pages_stay)
{
	for (int i = 0; i < 3000; i++)
		check_any();
}

// ---- unknown contents ----------------------------------------------------------------------------------------

static void make_two(void)
{
	begin_pagemap(7);
	add_entry(0x100000, CHUNK_PAGES, PRESENT, true);
	add_entry(0x200000, CHUNK_PAGES, PRESENT, true);
	begin_mm();
	add_area(0x100000, 0x300000, REGULAR | ANONYMOUS, 0);
	end_mm();
}

static void refused(size_t pages)
{
	struct image_file file = file_of(pages);
	unsigned char *out;
	size_t length;
	bool *without;

	memset(chunks, 0, sizeof chunks);
	CHECK_INT(thin(&file, &out, &length, &without), -EBADMSG);
}

TEST(unknown_contents_are_passed_on_unchanged)
{
	struct image_file file = file_of(2 * CHUNK_PAGES);
	unsigned char *out;
	size_t length, whole;
	bool *without;

	memset(chunks, 0, sizeof chunks);
	make_two();
	CHECK_INT(thin(&file, &out, &length, &without), 0);
	CHECK(without[0] && without[1] && length == 8 + 4 + 2); // only the header of the file is left, without any page
	free(out);
	free(without);

	refused(2 * CHUNK_PAGES - 1); // more pages than the file has
	refused(2 * CHUNK_PAGES + 1);
	file.chunk_bytes = CHUNK_PAGE / 2;
	CHECK_INT(thin(&file, &out, &length, &without), -EBADMSG);
	// Cut the pagemap at every position: each result is invalid.
	for (whole = pagemap.length--; pagemap.length > 0; pagemap.length--)
		refused(2 * CHUNK_PAGES);
	make_two();
	for (whole = mm.length--; mm.length > 0; mm.length--)
		refused(2 * CHUNK_PAGES);
	CHECK(whole > 0);

	static const struct {
		uint64_t address, pages, flags;
	} wrong[] = {{0x200000, CHUNK_PAGES, PRESENT | IN_PARENT},
		     {0x200000, CHUNK_PAGES, 0},
		     {0x200000, CHUNK_PAGES, PRESENT | 8},
		     {0x200001, CHUNK_PAGES, PRESENT},
		     {0x10f000, CHUNK_PAGES, PRESENT},
		     {0x1000, CHUNK_PAGES, PRESENT},
		     {UINT64_MAX - CHUNK_PAGE + 1, CHUNK_PAGES, PRESENT},
		     {0x200000, UINT64_MAX, PRESENT},
		     {0x200000, 0, PRESENT}};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		make_two();
		begin_pagemap(7);
		add_entry(0x100000, CHUNK_PAGES, PRESENT, true);
		add_entry(wrong[i].address, wrong[i].pages, wrong[i].flags, true);
		refused(2 * CHUNK_PAGES);
	}
	make_two();
	record.length = 0;
	put_field(&record, 1, 0x400000);
	put_field(&record, 2, 1);
	// The record refers to a parent image.
	put_field(&record, 3, 1);
	put_field(&record, 4, PRESENT);
	put_record(&pagemap, &record);
	refused(2 * CHUNK_PAGES + 1);
	make_two();
	begin_mm();
	add_area(0x200000, 0x300000, REGULAR | ANONYMOUS, 0);
	add_area(0x100000, 0x200000, REGULAR | ANONYMOUS, 0);
	end_mm();
	refused(2 * CHUNK_PAGES);
}

TEST(any_byte_may_be_damaged)
{
	static const unsigned char bits[] = {1, 0x10, 0x80, 0xff};
	struct image_file file = file_of(2 * CHUNK_PAGES);
	unsigned long done = 0;

	memset(chunks, 0, sizeof chunks);
	make_two();
	for (size_t at = 0; at < pagemap.length + mm.length; at++)
		for (size_t i = 0; i < sizeof bits; i++) {
			unsigned char *byte = at < pagemap.length ? &pagemap.data[at] : &mm.data[at - pagemap.length];
			unsigned char *out;
			size_t length;
			bool *without;
			*byte ^= bits[i];
			int r = thin(&file, &out, &length, &without);
			CHECK(r == 0 || r == -EBADMSG);
			if (r == 0) {
				free(out);
				free(without);
				done++;
			}
			*byte ^= bits[i];
		}
	CHECK(done > 0);
}

// ---- the CRIU of this machine --------------------------------------------------------------------------------

// Returns how many KiB of the process's memory area that begins at `begin` are resident.
static long resident(pid_t pid, const char *begin)
{
	char path[64], line[512];
	bool in = false;
	long size = -1;

	snprintf(path, sizeof path, "/proc/%d/smaps", (int)pid);
	FILE *file = fopen(path, "r");
	CHECK(file != NULL);
	while (size < 0 && fgets(line, sizeof line, file)) {
		if (strncmp(line, begin, strlen(begin)) == 0 && line[strlen(begin)] == '-')
			in = true;
		if (in && sscanf(line, "Rss: %ld kB", &size) == 1)
			break;
	}
	fclose(file);
	return size;
}

TEST(zeros_stay_zeros_and_are_not_restored)
{
	static const char *const methods[] = {"none", "lz4"};
	char begin[32], log[4096];

	need_criu();
	struct subject subject = start_subject_with(path_of("subject"), "zeros");
	check_goes_on(path_of("subject"));
	check_goes_on(path_of("subject.zeros.child"));
	CHECK(vg_file_read(path_of("subject.areas"), begin, sizeof begin) > 0);
	long before = resident(subject.pid, begin);
	CHECK(before >= 16 << 10);
	for (int i = 0; i < 2; i++) {
		CHECK_RUN("dump --pid %d --dir %s --compress %s", (int)subject.pid, path_of(methods[i]), methods[i]);
		wait_gone(subject.pid);
		int r = run("restore --detach --dir %s", path_of(methods[i]));
		if (vg_file_read(path_of("subject.log"), log, sizeof log) > 0)
			FAIL("%s", log); // `log` has the message that the child has written
		if (r)
			FAIL("%s", said);
		check_goes_on(path_of("subject.zeros"));
		check_goes_on(path_of("subject.zeros.child"));
	}
	// The restored process has read the area, but reading allocates no memory. Only a few chunks have pages with
	// data.
	long after = resident(subject.pid, begin);
	printf("# %ld KiB of %ld KiB are in memory after it\n", after, before);
	CHECK(after > 0 && after <= before / 2);
	end_subject(subject);
}
