// Tests what a space does with empty pages: which it keeps, which it frees, and how that changes the fragmentation.
#include "space_test.h"

// ---- pools ------------------------------------------------------------------------------------------

TEST(pools_keep_empty_pages_up_to_their_size)
{
	struct vg_memory_space *space = open_space(256 * MIB);
	struct vg_pool_info pool;
	vg_address address[5];
	enum { PARTS = 8 };

	CHECK_INT(info_of(space).pools, 10);
	for (unsigned i = 0; i < 8; i++) {
		OK(vg_memory_space_pool(space, i, &pool));
		CHECK_INT(pool.block_size, KIB << i);
		CHECK_INT(pool.pool_size, (MIB << i) < PAGE ? PAGE : MIB << i);
		CHECK_INT(pool.blocks, 0);
		CHECK_INT(pool.free_bytes, 0);
	}
	OK(vg_memory_space_pool(space, PARTS + 1, &pool));
	CHECK_INT(pool.block_size, PAGE);
	REFUSED(vg_memory_space_pool(space, 10, &pool), VG_NOT_FOUND, "0 to 9");
	REFUSED(vg_memory_space_set_pool_size(space, 10, 1), VG_NOT_FOUND, "0 to 9");
	REFUSED(vg_memory_space_set_pool_size(space, 1, SIZE_MAX), VG_INVALID, "no device");
	OK(vg_memory_space_set_pool_size(space, PARTS, 3 * MIB));
	OK(vg_memory_space_pool(space, PARTS, &pool));
	CHECK_INT(pool.block_size, PAGE / 64);
	CHECK_INT(pool.pool_size, 4 * MIB);
	for (int i = 0; i < 5; i++)
		address[i] = allocate(space, PAGE - 40 * KIB);
	OK(vg_memory_space_pool(space, PARTS, &pool));
	CHECK_INT(pool.blocks, 5);
	CHECK_INT(info_of(space).held, 5 * PAGE);
	for (int i = 0; i < 5; i++)
		OK(vg_memory_space_free(space, address[i]));
	CHECK_INT(info_of(space).held, 2 * PAGE);
	OK(vg_memory_space_set_pool_size(space, PARTS, 0));
	CHECK_INT(info_of(space).held, 0);
	address[0] = allocate(space, PAGE - 40 * KIB);
	OK(vg_memory_space_free(space, address[0]));
	CHECK_INT(info_of(space).held, 0);
	vg_memory_space_destroy(space);
}

// The pool size is the number of free bytes that a pool keeps. Checks that it applies to the free pages of plain and of
// movable blocks together.
TEST(a_pool_size_covers_plain_and_movable_blocks)
{
	struct vg_memory_space *space = open_space(256 * MIB);
	struct vg_movable_block *movable[2];
	vg_address plain[2];

	OK(vg_memory_space_set_pool_size(space, 8, 4 * MIB));
	for (int i = 0; i < 2; i++) {
		plain[i] = allocate(space, PAGE - 40 * KIB);
		OK(vg_movable_block_create(space, PAGE - 40 * KIB, &movable[i]));
	}
	CHECK_INT(info_of(space).held, 4 * PAGE);
	for (int i = 0; i < 2; i++) {
		OK(vg_memory_space_free(space, plain[i]));
		vg_movable_block_destroy(movable[i]);
	}
	CHECK_INT(info_of(space).held, 2 * PAGE);
	OK(vg_memory_space_set_pool_size(space, 8, PAGE));
	CHECK_INT(info_of(space).held, PAGE);
	vg_memory_space_destroy(space);
}

// Checks that an empty page is used for the next block, whatever its size.
TEST(empty_pages_serve_other_sizes)
{
	struct vg_memory_space *space = open_space(64 * MIB);

	for (size_t size = 1; size <= PAGE; size *= 2) {
		vg_address address = allocate(space, size);
		CHECK_INT(info_of(space).held, PAGE);
		OK(vg_memory_space_free(space, address));
		check_figures(space);
	}
	vg_memory_space_destroy(space);
}

// ---- fragmentation ----------------------------------------------------------------------------------

TEST(fragmentation)
{
	struct vg_memory_space *space = open_space(64 * MIB);
	struct vg_defragment_result result;
	vg_address address[8];

	CHECK(info_of(space).fragmentation == 0);
	for (int i = 0; i < 8; i++)
		address[i] = allocate(space, MIB);
	CHECK(info_of(space).fragmentation == 0); // no memory is free
	OK(vg_memory_space_free(space, address[0]));
	CHECK(info_of(space).fragmentation == 0); // 1 MiB is free in one piece
	OK(vg_memory_space_free(space, address[2]));
	CHECK(info_of(space).fragmentation == 0.5);
	OK(vg_memory_space_free(space, address[4]));
	OK(vg_memory_space_free(space, address[6]));
	CHECK(info_of(space).fragmentation == 0.75);
	OK(vg_memory_space_free(space, address[1])); // now an empty page and three halves of pages are free
	CHECK(info_of(space).fragmentation == 1 - 2.0 / 5);
	OK(vg_memory_space_defragment(space, &result));
	CHECK(result.before == 1 - 2.0 / 5);
	CHECK(result.after == 1 - 1.0 / 3);
	CHECK_INT(result.bytes_returned, PAGE);
	CHECK_INT(result.pages_returned, 1);
	CHECK_INT(info_of(space).held, 3 * PAGE);
	CHECK_INT(info_of(space).defragmentations, 1);
	for (int i = 3; i < 8; i += 2) // defragmentation must not have moved the allocated blocks
		check_bytes(space, address[i], MIB, 0);
	CHECK(info_of(space).padding_waste == 0);
	allocate(space, MIB / 2 + 1); // takes 17 cells (parts of a page) of 32 KiB, of which the last has one used byte
	CHECK_INT(info_of(space).padding, 32 * KIB - 1);
	vg_memory_space_destroy(space);
}

TEST(free_ranges_of_addresses_join)
{
	struct vg_memory_space *space = open_space(64 * MIB);
	struct vg_defragment_result result;
	vg_address address[6];

	for (int i = 0; i < 6; i++)
		address[i] = allocate(space, PAGE);
	OK(vg_memory_space_free(space, address[1]));
	OK(vg_memory_space_defragment(space, &result)); // a separate hole
	CHECK_INT(result.pages_returned, 1);
	CHECK_INT(result.ranges_joined, 0);
	OK(vg_memory_space_free(space, address[3]));
	OK(vg_memory_space_defragment(space, NULL));
	OK(vg_memory_space_free(space, address[2]));
	OK(vg_memory_space_defragment(space, &result)); // merges two holes into one
	CHECK_INT(result.ranges_joined, 1);
	vg_address run = allocate(space, 3 * PAGE);
	CHECK(run == address[1]);
	vg_memory_space_destroy(space);
}

// ---- automatic defragmentation ----------------------------------------------------------------------

static struct vg_memory_space *open_automatic(double threshold, int manual)
{
	return open_space_with(&(struct vg_memory_space_options){
		.limit = 256 * MIB, .defragmentation_threshold = threshold, .manual_defragmentation = manual});
}

// Makes four half-empty pages and four empty ones. Then allocates and frees a block of 1 byte `calls` times.
static void wear(struct vg_memory_space *space, int calls)
{
	vg_address address[16];

	for (int i = 0; i < 16; i++)
		address[i] = allocate(space, MIB);
	for (int i = 0; i < 16; i += 2) {
		OK(vg_memory_space_free(space, address[i]));
		if (i >= 8)
			OK(vg_memory_space_free(space, address[i + 1]));
	}
	CHECK_INT(info_of(space).held, 16 * MIB);
	for (int i = 0; i < calls; i++) {
		vg_address small = allocate(space, 1);
		OK(vg_memory_space_free(space, small));
	}
}

TEST(empty_pages_are_freed_above_the_threshold)
{
	struct vg_memory_space *space = open_automatic(0, 0);

	wear(space, 4000);
	struct vg_memory_space_info info = info_of(space);
	CHECK(info.automatic_defragmentations > 0);
	CHECK(info.held <= 10 * MIB); // only the half-empty pages, and the page of the last calls, may be left
	check_figures(space);
	vg_memory_space_destroy(space);
}

TEST(automatic_defragmentation_can_be_off)
{
	struct vg_memory_space *space = open_automatic(1, 0), *manual = open_automatic(0, 1);

	wear(space, 4000);
	CHECK_INT(info_of(space).automatic_defragmentations, 0);
	CHECK(info_of(space).held >= 16 * MIB);
	wear(manual, 4000);
	CHECK_INT(info_of(manual).automatic_defragmentations, 0);
	CHECK(info_of(manual).held >= 16 * MIB);
	vg_memory_space_destroy(manual);
	vg_memory_space_destroy(space);
}

// Checks that defragmentation does not free a page that calls use repeatedly.
TEST(pages_in_use_are_not_freed)
{
	struct vg_memory_space *space = open_automatic(0.01, 0);
	struct vg_page before, after;

	wear(space, 3000);
	vg_address address = allocate(space, 1);
	OK(vg_memory_space_page(space, address, &before));
	OK(vg_memory_space_free(space, address));
	for (int i = 0; i < 20000; i++) {
		vg_address small = allocate(space, 1);
		OK(vg_memory_space_free(space, small));
	}
	address = allocate(space, 1);
	OK(vg_memory_space_page(space, address, &after));
	CHECK_INT(after.physical, before.physical);
	vg_memory_space_destroy(space);
}

// ---- pages ------------------------------------------------------------------------------------------

TEST(the_page_table)
{
	struct vg_memory_space *space = open_space(64 * MIB);
	vg_address address = allocate(space, 3 * PAGE), pinned;
	struct vg_page page, pages[8];
	struct vg_movable_block *block;
	size_t count = 99;
	char byte = 1;

	OK(vg_memory_space_page(space, address + PAGE + 5, &page));
	CHECK(page.valid);
	CHECK(page.address == address + PAGE);
	CHECK_INT(page.size, PAGE);
	// kernels may have written to the page, because the program has an address in it
	CHECK(page.dirty == VG_TRISTATE_UNKNOWN);
	CHECK(page.accessed == VG_TRISTATE_UNKNOWN);
	CHECK_INT(page.last_access_ns, 0);
	OK(vg_memory_space_read(space, &byte, address + PAGE, 1));
	OK(vg_memory_space_page(space, address + PAGE, &page));
	CHECK(page.dirty == VG_TRISTATE_UNKNOWN);
	CHECK(page.accessed == VG_TRISTATE_YES);
	uint64_t read = page.last_access_ns;
	CHECK(read > 0);
	OK(vg_memory_space_set(space, address + PAGE - 1, 1, 2));
	OK(vg_memory_space_page(space, address, &page));
	CHECK(page.dirty == VG_TRISTATE_YES);
	OK(vg_memory_space_page(space, address + PAGE, &page));
	CHECK(page.dirty == VG_TRISTATE_YES);
	CHECK(page.last_access_ns > read);
	OK(vg_memory_space_page(space, address + 2 * PAGE, &page));
	CHECK(page.dirty == VG_TRISTATE_UNKNOWN);
	OK(vg_memory_space_page(space, address + 3 * PAGE, &page));
	CHECK(!page.valid);
	CHECK_INT(page.physical, 0);
	REFUSED(vg_memory_space_page(space, 1, &page), VG_BOUNDS, "no address of this space");
	// The program has not pinned this block, so it never got an address in the block's page.
	OK(vg_movable_block_create(space, PAGE, &block));
	OK(vg_memory_space_pages(space, NULL, 0, &count));
	CHECK_INT(count, 4);
	OK(vg_memory_space_pages(space, pages, 8, &count));
	CHECK_INT(count, 4);
	CHECK(pages[3].dirty == VG_TRISTATE_NO);
	CHECK(pages[3].accessed == VG_TRISTATE_NO);
	for (int i = 0; i < 4; i++)
		CHECK(pages[i].valid && pages[i].physical && (i == 0 || pages[i].address > pages[i - 1].address));
	OK(vg_movable_block_pin(block, &pinned));
	OK(vg_movable_block_unpin(block));
	OK(vg_memory_space_page(space, pinned, &page));
	CHECK(page.dirty == VG_TRISTATE_UNKNOWN);
	REFUSED(vg_memory_space_pages(space, pages, 3, &count), VG_LIMIT, "there are 4 pages");
	REFUSED(vg_memory_space_pages(space, NULL, 3, &count), VG_INVALID, "pages is NULL");
	// The new page at this address must not have the history of the old one.
	OK(vg_memory_space_free(space, address));
	OK(vg_memory_space_defragment(space, NULL));
	CHECK(allocate(space, 3 * PAGE) == address);
	OK(vg_memory_space_page(space, address, &page));
	CHECK(page.dirty == VG_TRISTATE_UNKNOWN);
	CHECK_INT(page.last_access_ns, 0);
	CHECK(page.physical > pages[2].physical);
	vg_movable_block_destroy(block);
	vg_memory_space_destroy(space);
}
