// Tests calls that are refused: their messages, and that they change nothing.
#include "core/core.h"
#include "space/space.h"
#include "space_test.h"

static struct vg_context *context;

static enum vg_status create(const struct vg_memory_space_options *given)
{
	struct vg_memory_space_options options = *given;
	struct vg_memory_space *space = NULL;

	options.size = sizeof options;
	context = first_context();
	enum vg_status status = vg_memory_space_create(context, &options, &space);
	CHECK(status == VG_OK ? space != NULL : space == NULL);
	vg_memory_space_destroy(space);
	vg_context_destroy(context);
	return status;
}
#define CREATE(...) create(&(struct vg_memory_space_options){__VA_ARGS__})

TEST(options)
{
	struct vg_device *device;
	size_t total;

	OK(vg_device_get(0, &device));
	OK(vg_device_memory_info(device, NULL, &total));
	REFUSED(CREATE(0), VG_INVALID, "limit is 0");
	REFUSED(CREATE(.limit = total + 1), VG_INVALID, "device 0 has");
	REFUSED(CREATE(.limit = UINT64_MAX), VG_INVALID, "device 0 has");
	REFUSED(CREATE(.limit = MIB, .page_size = SIZE_MAX), VG_INVALID, "page_size");
	REFUSED(CREATE(.limit = MIB, .page_size = ((size_t)1 << 30) + 1), VG_INVALID, "1 GiB at most");
	REFUSED(CREATE(.limit = MIB, .max_pages = SIZE_MAX), VG_INVALID, "max_pages");
	REFUSED(CREATE(.limit = MIB, .pools = 13), VG_INVALID, "13 pools");
	REFUSED(CREATE(.limit = MIB, .pools = UINT32_MAX), VG_INVALID, "4294967295 pools");
	REFUSED(CREATE(.limit = MIB, .base_block_size = 100), VG_INVALID, "power of two");
	REFUSED(CREATE(.limit = MIB, .base_block_size = 128), VG_INVALID, "256 at least");
	REFUSED(CREATE(.limit = MIB, .base_block_size = 3000), VG_INVALID, "power of two");
	REFUSED(CREATE(.limit = MIB, .base_block_size = SIZE_MAX / 2 + 1), VG_INVALID, "the last one's");
	REFUSED(CREATE(.limit = MIB, .defragmentation_threshold = -0.1), VG_INVALID, "0 to 1");
	REFUSED(CREATE(.limit = MIB, .defragmentation_threshold = 1.1), VG_INVALID, "0 to 1");
	REFUSED(CREATE(.limit = MIB, .defragmentation_threshold = __builtin_nan("")), VG_INVALID, "0 to 1");
	OK(CREATE(.limit = total));
	OK(CREATE(.limit = 1));
	OK(CREATE(.limit = MIB, .pools = 12));
	OK(CREATE(.limit = MIB, .base_pool_size = SIZE_MAX, .pools = 1, .page_size = 1));
}

// The default page size of 4096 is rounded up to the device's granularity, and the space reports the rounded size.
TEST(page_sizes)
{
	static const struct {
		size_t asked, got;
	} cases[] = {{0, PAGE}, {4096, PAGE}, {PAGE, PAGE}, {PAGE + 1, 2 * PAGE}, {3 * PAGE, 3 * PAGE}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct vg_memory_space *space = open_space_with(
			&(struct vg_memory_space_options){.limit = 64 * MIB, .page_size = cases[i].asked});
		CHECK_INT(info_of(space).page_size, cases[i].got);
		vg_address address = allocate(space, 10000), other = allocate(space, MIB);
		check_bytes(space, other, MIB, 0);
		check_figures(space);
		CHECK_INT(info_of(space).held, 2 * cases[i].got);
		OK(vg_memory_space_free(space, address));
		vg_memory_space_destroy(space);
	}
}

// ---- blocks -----------------------------------------------------------------------------------------

TEST(sizes_and_alignments)
{
	struct vg_memory_space *space = open_space(64 * MIB);
	vg_address address = 77;

	REFUSED(vg_memory_space_allocate(space, 0, 0, &address), VG_INVALID, "size is 0");
	REFUSED(vg_memory_space_allocate(space, SIZE_MAX, 0, &address), VG_INVALID, "more than any device");
	REFUSED(vg_memory_space_allocate(space, SIZE_MAX / 2, 0, &address), VG_INVALID, "more than any device");
	REFUSED(vg_memory_space_allocate(space, (size_t)1 << 60, 0, &address), VG_INSUFFICIENT, "limit");
	REFUSED(vg_memory_space_allocate(space, 1, 3, &address), VG_INVALID, "power of two");
	REFUSED(vg_memory_space_allocate(space, 1, SIZE_MAX, &address), VG_INVALID, "power of two");
	REFUSED(vg_memory_space_allocate(space, 1, (size_t)1 << 31, &address), VG_INVALID, "power of two up to");
	REFUSED(vg_memory_space_allocate(space, 1, 0, NULL), VG_INVALID, "ret_address is NULL");
	REFUSED(vg_memory_space_allocate(NULL, 1, 0, &address), VG_INVALID, "space is NULL");
	CHECK_INT(address, 77);
	CHECK_INT(info_of(space).held, 0);
	for (size_t alignment = 1; alignment <= (size_t)1 << 30; alignment *= 2) {
		OK(vg_memory_space_allocate(space, 1000, alignment, &address));
		CHECK_INT(address % alignment, 0);
		OK(vg_memory_space_allocate(space, 200 * KIB, alignment, &address));
		CHECK_INT(address % alignment, 0);
		check_figures(space);
		// Blocks with an alignment of a page (2 MiB) or more take pages of their own, so do not keep this one.
		if (alignment >= MIB)
			OK(vg_memory_space_free(space, address));
	}
	vg_memory_space_destroy(space);
}

TEST(too_large_requests_are_refused)
{
	struct vg_memory_space *space = open_space(8 * MIB);
	vg_address address[4], more;

	for (int i = 0; i < 4; i++)
		address[i] = allocate(space, PAGE);
	REFUSED(vg_memory_space_allocate(space, PAGE, 0, &more), VG_INSUFFICIENT, "0 B (0 bytes) are left");
	CHECK_INT(vg_last_error()->need, PAGE);
	CHECK_INT(vg_last_error()->have, 0);
	REFUSED(vg_memory_space_allocate(space, 9 * MIB, 0, &more), VG_INSUFFICIENT, "raise the limit");
	CHECK_INT(vg_last_error()->need, 10 * MIB);
	CHECK_INT(info_of(space).held, 8 * MIB);
	CHECK(vg_status_is_retriable(VG_INSUFFICIENT));
	// The space frees empty pages of one size to make pages of another size. Here it frees two single pages, and
	// makes a run of 4 MiB.
	OK(vg_memory_space_free(space, address[0]));
	OK(vg_memory_space_free(space, address[2]));
	CHECK_INT(info_of(space).held, 8 * MIB);
	OK(vg_memory_space_allocate(space, 4 * MIB, 0, &more));
	CHECK_INT(info_of(space).held, 8 * MIB);
	check_bytes(space, more, 4 * MIB, 0);
	// A page is divided into cells of one size. If the space cannot add a page with small cells, it puts a small
	// block into a free larger cell.
	OK(vg_memory_space_free(space, address[1]));
	vg_address large = allocate(space, 128 * KIB);
	vg_address small = allocate(space, 1);
	CHECK(small / PAGE == large / PAGE);
	check_figures(space);
	OK(vg_memory_space_free(space, small));
	vg_memory_space_destroy(space);
}

TEST(requests_beyond_max_pages_are_refused)
{
	struct vg_memory_space *space = open_space_with(
		&(struct vg_memory_space_options){.limit = 64 * MIB, .max_pages = 4, .manual_defragmentation = 1});
	vg_address address, other;

	OK(vg_memory_space_allocate(space, 3 * PAGE, 0, &address));
	REFUSED(vg_memory_space_allocate(space, 2 * PAGE, 0, &other), VG_LIMIT, "max_pages");
	CHECK_INT(info_of(space).held, 3 * PAGE);
	OK(vg_memory_space_allocate(space, PAGE, 0, &other));
	OK(vg_memory_space_free(space, address));
	OK(vg_memory_space_defragment(space, NULL));
	OK(vg_memory_space_allocate(space, 2 * PAGE, 0, &address));
	vg_memory_space_destroy(space);
}

TEST(invalid_addresses_to_free_are_refused)
{
	struct vg_memory_space *space = open_space(64 * MIB), *stranger = open_space(64 * MIB);
	vg_address address = allocate(space, 5000), run = allocate(space, 3 * PAGE), foreign = allocate(stranger, 5000);
	struct vg_movable_block *block;
	vg_address pinned;
	char here;

	REFUSED(vg_memory_space_free(space, 0), VG_BOUNDS, "no address of this space");
	REFUSED(vg_memory_space_free(space, UINT64_MAX), VG_BOUNDS, "no address of this space");
	REFUSED(vg_memory_space_free(space, (vg_address)(uintptr_t)&here), VG_BOUNDS, "no address of this space");
	REFUSED(vg_memory_space_free(space, foreign), VG_BOUNDS, "no address of this space");
	REFUSED(vg_memory_space_free(space, address + 1), VG_INVALID, "1 bytes into a block of 5000");
	REFUSED(vg_memory_space_free(space, address + 4999), VG_INVALID, "4999 bytes into");
	REFUSED(vg_memory_space_free(space, address + 5000), VG_STALE, "no block is there");
	REFUSED(vg_memory_space_free(space, address + 8192), VG_STALE, "no block is there");
	REFUSED(vg_memory_space_free(space, run + PAGE), VG_INVALID, "bytes into a block");
	REFUSED(vg_memory_space_free(space, run + 16 * PAGE), VG_STALE, "no block is there");
	OK(vg_movable_block_create(space, 5000, &block));
	OK(vg_movable_block_pin(block, &pinned));
	REFUSED(vg_memory_space_free(space, pinned), VG_INVALID, "movable block's");
	CHECK_INT(info_of(space).blocks, 3);
	vg_movable_block_destroy(block);
	OK(vg_memory_space_free(space, address));
	REFUSED(vg_memory_space_free(space, address), VG_STALE, "no block is there");
	OK(vg_memory_space_free(space, run));
	REFUSED(vg_memory_space_free(space, run), VG_STALE, "no block is there");
	OK(vg_memory_space_defragment(space, NULL));
	REFUSED(vg_memory_space_free(space, run), VG_STALE, "no block is there");
	CHECK_INT(info_of(space).blocks, 0);
	check_figures(space);
	vg_memory_space_destroy(stranger);
	vg_memory_space_destroy(space);
}

// ---- copies -----------------------------------------------------------------------------------------

TEST(copies)
{
	struct vg_memory_space *space = open_space(64 * MIB), *other = open_space(64 * MIB);
	vg_address address = allocate(space, 5000), second = allocate(space, 5000), foreign = allocate(other, 5000);
	char data[6000] = {1};

	REFUSED(vg_memory_space_write(space, address, data, 5001), VG_BOUNDS,
		"5001 bytes at offset 0 of a block of 5000");
	REFUSED(vg_memory_space_write(space, address + 4999, data, 2), VG_BOUNDS, "they would leave it");
	REFUSED(vg_memory_space_write(space, address, data, SIZE_MAX), VG_BOUNDS, "they would leave it");
	REFUSED(vg_memory_space_read(space, data, address + 1, 5000), VG_BOUNDS, "they would leave it");
	REFUSED(vg_memory_space_set(space, address, 0, 5001), VG_BOUNDS, "they would leave it");
	REFUSED(vg_memory_space_copy(space, address, second, 5001), VG_BOUNDS, "they would leave it");
	REFUSED(vg_memory_space_copy_peer(space, address, other, foreign + 1, 5000), VG_BOUNDS, "they would leave it");
	REFUSED(vg_memory_space_write(space, foreign, data, 1), VG_BOUNDS, "no address of this space");
	REFUSED(vg_memory_space_copy(space, address, foreign, 1), VG_BOUNDS, "from is 0x");
	REFUSED(vg_memory_space_copy_peer(space, foreign, other, foreign, 1), VG_INVALID, "overlap");
	REFUSED(vg_memory_space_copy_peer(space, second, other, address, 1), VG_BOUNDS, "from is 0x");
	// The call must not treat a host address as a device address.
	REFUSED(vg_memory_space_write(space, (vg_address)(uintptr_t)data, data, 1), VG_BOUNDS, "to is 0x");
	REFUSED(vg_memory_space_read(space, data, (vg_address)(uintptr_t)data, 1), VG_BOUNDS, "from is 0x");
	REFUSED(vg_memory_space_copy(space, address, (vg_address)(uintptr_t)data, 1), VG_BOUNDS, "from is 0x");
	REFUSED(vg_memory_space_write(space, address, (void *)(uintptr_t)second, 1), VG_INVALID, "address of a device");
	REFUSED(vg_memory_space_write(space, address, (void *)(uintptr_t)foreign, 1), VG_INVALID,
		"address of a device");
	REFUSED(vg_memory_space_read(space, (void *)(uintptr_t)second, address, 1), VG_INVALID, "address of a device");
	REFUSED(vg_memory_space_write(space, address, NULL, 1), VG_INVALID, "from is NULL");
	REFUSED(vg_memory_space_read(space, NULL, address, 1), VG_INVALID, "to is NULL");
	REFUSED(vg_memory_space_set(space, address, 256, 1), VG_INVALID, "a byte is 0 to 255");
	REFUSED(vg_memory_space_set(space, address, -1, 1), VG_INVALID, "a byte is 0 to 255");
	REFUSED(vg_memory_space_copy(space, address, address + 100, 101), VG_INVALID, "overlap");
	REFUSED(vg_memory_space_copy(space, address, address, 1), VG_INVALID, "overlap");
	OK(vg_memory_space_copy(space, address, address + 100, 100));
	check_bytes(space, address, 5000, 0); // none of these calls wrote anything
	OK(vg_memory_space_write(space, address, NULL, 0));
	OK(vg_memory_space_write(space, address + 5000, data, 0));
	REFUSED(vg_memory_space_write(space, address + 5001, data, 0), VG_BOUNDS, "offset 5001");
	OK(vg_memory_space_free(space, address));
	REFUSED(vg_memory_space_write(space, address, data, 1), VG_STALE, "no block is there");
	REFUSED(vg_memory_space_set(space, address, 1, 1), VG_STALE, "no block is there");
	vg_memory_space_destroy(other);
	vg_memory_space_destroy(space);
}

// Page-locked and managed memory must be accepted as the host's side of a copy.
TEST(registered_host_memory_is_allowed)
{
	struct vg_memory_space *space = open_space(64 * MIB);
	vg_address address = allocate(space, 5000);
	struct vg_context *here = first_context();
	struct CUctx_st *before;
	CUdeviceptr managed;
	void *locked;

	OK(vg_context_set_current(here, &before));
	CHECK_INT(core_driver->cuMemHostAlloc(&locked, 5000, 0), CUDA_SUCCESS);
	CHECK_INT(core_driver->cuMemAllocManaged(&managed, 5000, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
	memset(locked, 3, 5000);
	OK(vg_memory_space_write(space, address, locked, 5000));
	check_bytes(space, address, 5000, 3);
	OK(vg_memory_space_read(space, (void *)(uintptr_t)managed, address, 5000));
	CHECK_INT(((char *)(uintptr_t)managed)[4999], 3);
	CHECK_INT(core_driver->cuMemFree_v2(managed), CUDA_SUCCESS);
	CHECK_INT(core_driver->cuMemFreeHost(locked), CUDA_SUCCESS);
	OK(vg_context_restore(before));
	vg_context_destroy(here);
	vg_memory_space_destroy(space);
}

TEST(blocks_are_copied_between_spaces)
{
	struct vg_memory_space *space = open_space(64 * MIB), *other = open_space(64 * MIB);
	vg_address here = allocate(space, 3 * MIB), there = allocate(other, 3 * MIB);

	write_pattern(space, here, 3 * MIB, 7);
	OK(vg_memory_space_copy_peer(other, there, space, here, 3 * MIB));
	check_pattern(other, there, 3 * MIB, 7);
	OK(vg_memory_space_set(other, there + 5, 0x5a, 1000));
	check_bytes(other, there + 5, 1000, 0x5a);
	OK(vg_memory_space_copy(other, there + 2 * MIB, there, MIB));
	check_bytes(other, there + 2 * MIB + 5, 1000, 0x5a);
	vg_memory_space_destroy(other);
	vg_memory_space_destroy(space);
}

TEST(contents_between_devices)
{
	struct vg_device *device;
	struct vg_context *second;
	struct vg_memory_space *space = open_space(64 * MIB), *other;
	struct vg_memory_space_options options = {.size = sizeof options, .limit = 64 * MIB};

	if (vg_device_get(1, &device)) {
		vg_memory_space_destroy(space);
		SKIP("this machine has one device");
	}
	OK(vg_context_primary(device, &second));
	OK(vg_memory_space_create(second, &options, &other));
	vg_address here = allocate(space, 3 * MIB), there = allocate(other, 3 * MIB);
	write_pattern(space, here, 3 * MIB, 8);
	OK(vg_memory_space_copy_peer(other, there, space, here, 3 * MIB));
	check_pattern(other, there, 3 * MIB, 8);
	vg_memory_space_destroy(other);
	vg_memory_space_destroy(space);
	vg_context_destroy(second);
}

// ---- movable blocks, limits, closing ----------------------------------------------------------------

TEST(movable_blocks)
{
	struct vg_memory_space *space = open_space(64 * MIB);
	struct vg_movable_block *block = NULL;
	vg_address address = 0, again;
	char byte = 1;

	REFUSED(vg_movable_block_create(space, 0, &block), VG_INVALID, "size is 0");
	REFUSED(vg_movable_block_create(space, 65 * MIB, &block), VG_INSUFFICIENT, "limit");
	REFUSED(vg_movable_block_create(NULL, 1, &block), VG_INVALID, "space is NULL");
	REFUSED(vg_movable_block_create(space, 1, NULL), VG_INVALID, "ret_block is NULL");
	CHECK(block == NULL);
	OK(vg_movable_block_create(space, 5000, &block));
	CHECK_INT(vg_movable_block_size(block), 5000);
	CHECK_INT(vg_movable_block_size(NULL), 0);
	REFUSED(vg_movable_block_unpin(block), VG_STATE, "not pinned");
	OK(vg_movable_block_pin(block, &address));
	OK(vg_movable_block_pin(block, &again));
	CHECK(address == again);
	OK(vg_memory_space_write(space, address, &byte, 1));
	OK(vg_movable_block_unpin(block));
	OK(vg_memory_space_write(space, address, &byte, 1));
	OK(vg_movable_block_unpin(block));
	REFUSED(vg_movable_block_unpin(block), VG_STATE, "not pinned");
	REFUSED(vg_memory_space_write(space, address, &byte, 1), VG_STATE, "not pinned");
	REFUSED(vg_movable_block_pin(NULL, &address), VG_INVALID, "block is NULL");
	REFUSED(vg_movable_block_pin(block, NULL), VG_INVALID, "ret_address is NULL");
	REFUSED(vg_movable_block_unpin(NULL), VG_INVALID, "block is NULL");
	vg_movable_block_destroy(NULL);
	// A movable block has no memory any more after its space was destroyed.
	vg_memory_space_destroy(space);
	REFUSED(vg_movable_block_pin(block, &address), VG_CLOSED, "has been closed");
	REFUSED(vg_movable_block_unpin(block), VG_CLOSED, "has been closed");
	CHECK_INT(vg_movable_block_size(block), 5000);
	vg_movable_block_destroy(block);
}

TEST(limits)
{
	struct vg_memory_space *space = open_space(8 * MIB);
	vg_address address = allocate(space, 4 * MIB), more;

	REFUSED(space_set_limit(space, 0), VG_INVALID, "limit is 0");
	REFUSED(space_set_limit(space, UINT64_MAX), VG_INVALID, "device 0 has");
	REFUSED(space_set_limit(space, 2 * MIB), VG_LIMIT, "4194304 are charged");
	CHECK_INT(info_of(space).limit, 8 * MIB);
	OK(space_set_limit(space, 4 * MIB));
	REFUSED(vg_memory_space_allocate(space, 1, 0, &more), VG_INSUFFICIENT, "limit");
	OK(space_set_limit(space, 64 * MIB));
	OK(vg_memory_space_allocate(space, 60 * MIB, 0, &more));
	OK(vg_memory_space_free(space, more));
	OK(space_set_limit(space, 5 * MIB)); // to keep the new limit, the space frees cached pages
	CHECK_INT(info_of(space).held, 4 * MIB);
	OK(vg_memory_space_free(space, address));
	vg_memory_space_destroy(space);
}

static char heard[512];

static void hear(void *user, enum vg_log_level level, const char *text)
{
	snprintf(heard, sizeof heard, "%s", text);
}

TEST(calls_on_a_closed_space_fail)
{
	struct vg_device *device;
	struct vg_memory_space *space = open_space(64 * MIB);
	struct vg_memory_space_info info;
	struct vg_page page;
	vg_address address;
	size_t before, after;
	char byte;

	OK(vg_device_get(0, &device));
	before = free_on(device);
	address = allocate(space, 5000);
	allocate(space, 3 * PAGE);
	vg_log_set(hear, NULL);
	OK(vg_memory_space_close(space));
	vg_log_set(NULL, NULL);
	CHECK_CONTAINS(heard, "2 blocks with 6.0 MiB were still allocated");
	OK(vg_memory_space_close(space));
	after = free_on(device);
	CHECK_INT(after, before);
	REFUSED(vg_memory_space_allocate(space, 1, 0, &address), VG_CLOSED, "closed");
	REFUSED(vg_memory_space_free(space, address), VG_CLOSED, "closed");
	REFUSED(vg_memory_space_read(space, &byte, address, 1), VG_CLOSED, "closed");
	REFUSED(vg_memory_space_info(space, &info), VG_CLOSED, "closed");
	REFUSED(vg_memory_space_page(space, address, &page), VG_CLOSED, "closed");
	REFUSED(vg_memory_space_defragment(space, NULL), VG_CLOSED, "closed");
	REFUSED(vg_memory_space_compact(space, NULL, NULL), VG_CLOSED, "closed");
	REFUSED(vg_memory_space_set_pool_size(space, 0, 0), VG_CLOSED, "closed");
	REFUSED(space_set_limit(space, MIB), VG_CLOSED, "closed");
	vg_memory_space_destroy(space);
	vg_memory_space_destroy(NULL);
	REFUSED(vg_memory_space_close(NULL), VG_INVALID, "space is NULL");
}

TEST(calls_fail_in_a_forked_child)
{
	struct vg_memory_space *space = open_space(64 * MIB);
	vg_address address = allocate(space, 5000);
	struct vg_movable_block *block;

	OK(vg_movable_block_create(space, 100, &block));
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		REFUSED(vg_memory_space_allocate(space, 1, 0, &address), VG_STATE, "forked");
		REFUSED(vg_memory_space_free(space, address), VG_STATE, "forked");
		REFUSED(vg_memory_space_close(space), VG_STATE, "forked");
		vg_movable_block_destroy(block);
		vg_memory_space_destroy(space);
		_exit(0);
	}
	CHECK_CHILD(child);
	vg_movable_block_destroy(block);
	OK(vg_memory_space_free(space, address));
	vg_memory_space_destroy(space);
}
