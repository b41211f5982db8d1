// Tests blocks, the allocations in a space: their pools, their contents, and sizes that are refused.
#include "space_test.h"

TEST(blocks_of_each_size_keep_contents)
{
	static const size_t sizes[] = {1,   255,     256,      1024, 1025,     100 * KIB, 128 * KIB, 128 * KIB + 1,
				       MIB, MIB + 1, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE,  5 * MIB};
	enum { COUNT = sizeof sizes / sizeof *sizes };
	struct vg_memory_space *space = open_space(128 * MIB);
	vg_address address[COUNT];

	for (int i = 0; i < COUNT; i++) {
		address[i] = allocate(space, sizes[i]);
		CHECK_INT(address[i] % 256, 0);
		check_bytes(space, address[i], sizes[i], 0);
		write_pattern(space, address[i], sizes[i], (uint64_t)i);
		check_figures(space);
	}
	CHECK_INT(info_of(space).blocks, COUNT);
	for (int i = 0; i < COUNT; i++)
		check_pattern(space, address[i], sizes[i], (uint64_t)i);
	for (int i = 0; i < COUNT; i++) {
		OK(vg_memory_space_free(space, address[i]));
		check_figures(space);
	}
	CHECK_INT(info_of(space).allocated, 0);
	CHECK_INT(info_of(space).padding, 0);
	OK(vg_memory_space_defragment(space, NULL));
	CHECK_INT(info_of(space).held, 0);
	vg_memory_space_destroy(space);
}

TEST(blocks_share_a_page)
{
	struct vg_memory_space *space = open_space(64 * MIB);

	for (int i = 0; i < 16; i++)
		allocate(space, MIB);
	CHECK_INT(info_of(space).held, 16 * MIB);
	CHECK_INT(info_of(space).padding, 0);
	OK(vg_memory_space_close(space));
	vg_memory_space_destroy(space);
}
