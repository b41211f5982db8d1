// Tests that a space zeroes memory before it frees it. A second mapping of the same memory shows the contents.
#include "core/core.h"
#include "space_test.h"

enum { SECRET = 0x5e };

// A second mapping of the page at `address`. It keeps the page's memory allocated after the space has freed it.
struct spy {
	CUmemGenericAllocationHandle memory;
	CUdeviceptr at;
	size_t size;
};

static struct spy spy_on(vg_address address, size_t size)
{
	CUmemAccessDesc access = {{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	struct spy spy = {.size = size};

	CHECK_INT(core_driver->cuMemRetainAllocationHandle(&spy.memory, (void *)(uintptr_t)address), CUDA_SUCCESS);
	CHECK_INT(core_driver->cuMemAddressReserve(&spy.at, size, 0, 0, 0), CUDA_SUCCESS);
	CHECK_INT(core_driver->cuMemMap(spy.at, size, 0, spy.memory, 0), CUDA_SUCCESS);
	CHECK_INT(core_driver->cuMemSetAccess(spy.at, size, &access, 1), CUDA_SUCCESS);
	return spy;
}

static size_t count_bytes(const struct spy *spy, int value)
{
	unsigned char *data = malloc(spy->size);
	size_t count = 0;

	CHECK_INT(core_driver->cuMemcpyDtoH_v2(data, spy->at, spy->size), CUDA_SUCCESS);
	for (size_t i = 0; i < spy->size; i++)
		count += data[i] == (unsigned char)value;
	free(data);
	return count;
}

// Checks that the page's memory is all zero, and removes the second mapping.
static void check_clean(struct spy *spy)
{
	CHECK_INT(count_bytes(spy, 0), spy->size);
	CHECK_INT(core_driver->cuMemUnmap(spy->at, spy->size), CUDA_SUCCESS);
	CHECK_INT(core_driver->cuMemAddressFree(spy->at, spy->size), CUDA_SUCCESS);
	CHECK_INT(core_driver->cuMemRelease(spy->memory), CUDA_SUCCESS);
}

static struct vg_context *context;
static struct CUctx_st *before;

static void enter(void)
{
	context = first_context();
	OK(vg_context_set_current(context, &before));
}

static void leave(void)
{
	OK(vg_context_restore(before));
	vg_context_destroy(context);
}

// Writes a secret to a page, calls `give`, which makes the space free the page, and checks that the page is zero.
static void after(size_t size, void (*give)(struct vg_memory_space *space, vg_address address))
{
	struct vg_memory_space *space = open_space(64 * MIB);
	vg_address address = allocate(space, size);
	const size_t mapped = (size + PAGE - 1) / PAGE * PAGE;

	enter();
	OK(vg_memory_space_set(space, address, SECRET, size));
	struct spy spy = spy_on(address / PAGE * PAGE, mapped);
	CHECK_INT(count_bytes(&spy, SECRET), size); // shows that the second mapping has the same memory as the space
	give(space, address);
	check_clean(&spy);
	leave();
	vg_memory_space_destroy(space);
}

static void by_defragmenting(struct vg_memory_space *space, vg_address address)
{
	OK(vg_memory_space_free(space, address));
	OK(vg_memory_space_defragment(space, NULL));
	CHECK_INT(info_of(space).held, 0);
}

static void by_closing(struct vg_memory_space *space, vg_address address)
{
	OK(vg_memory_space_close(space));
}

static void by_a_pool_that_keeps_nothing(struct vg_memory_space *space, vg_address address)
{
	for (unsigned i = 0; i < info_of(space).pools; i++)
		OK(vg_memory_space_set_pool_size(space, i, 0));
	OK(vg_memory_space_free(space, address));
	CHECK_INT(info_of(space).held, 0);
}

static void by_need(struct vg_memory_space *space, vg_address address)
{
	OK(vg_memory_space_free(space, address));
	allocate(space, 64 * MIB);
}

TEST(small_blocks)
{
	after(1000, by_defragmenting);
	after(1000, by_closing);
	after(1000, by_a_pool_that_keeps_nothing);
	after(1000, by_need);
}

TEST(parts_of_pages)
{
	after(MIB + 5, by_defragmenting);
	after(MIB + 5, by_closing);
}

TEST(whole_pages)
{
	after(3 * PAGE, by_defragmenting);
	after(3 * PAGE, by_closing);
	after(3 * PAGE, by_a_pool_that_keeps_nothing);
	after(5 * MIB, by_need);
}

TEST(pages_emptied_by_compaction_are_zeroed)
{
	struct vg_memory_space *space = open_space(64 * MIB);
	struct vg_movable_block *block[4];
	struct vg_compact_result result;
	vg_address address[4];

	for (int i = 0; i < 4; i++) {
		OK(vg_movable_block_create(space, MIB, &block[i]));
		OK(vg_movable_block_pin(block[i], &address[i]));
		OK(vg_memory_space_set(space, address[i], SECRET, MIB));
		OK(vg_movable_block_unpin(block[i]));
	}
	enter();
	struct spy spies[2] = {spy_on(address[0] / PAGE * PAGE, PAGE), spy_on(address[2] / PAGE * PAGE, PAGE)};
	vg_movable_block_destroy(block[1]);
	vg_movable_block_destroy(block[3]);
	OK(vg_memory_space_compact(space, NULL, &result));
	CHECK_INT(result.bytes_returned, PAGE);
	// Each of the two pages had one block. Compaction has moved one of these blocks, so one page is full now and
	// the other one is empty. `full` is the index of the full page.
	int full = count_bytes(&spies[0], SECRET) == PAGE ? 0 : 1;
	CHECK_INT(count_bytes(&spies[full], SECRET), PAGE);
	CHECK_INT(count_bytes(&spies[!full], 0), PAGE);
	vg_movable_block_destroy(block[0]);
	vg_movable_block_destroy(block[2]);
	OK(vg_memory_space_close(space));
	check_clean(&spies[0]);
	check_clean(&spies[1]);
	leave();
	vg_memory_space_destroy(space);
}

// Checks that no space reads what another one wrote, although it gets the same memory.
TEST(the_next_space_reads_zeros)
{
	for (int round = 0; round < 3; round++) {
		struct vg_memory_space *space = open_space(32 * MIB), *next = open_space(32 * MIB);
		vg_address address = allocate(space, 32 * MIB);
		OK(vg_memory_space_set(space, address, SECRET, 32 * MIB));
		vg_memory_space_destroy(space);
		for (int i = 0; i < 16; i++)
			check_bytes(next, allocate(next, PAGE), PAGE, 0);
		vg_memory_space_destroy(next);
	}
}
