// Tests the memory of virtual GPUs: charges, bounds and isolation, with and without memory virtualization.
#include "manager_test.h"

#include <cuda.h>
#include <string.h>

static struct vg_manager_options kinds[] = {
	{.size = sizeof(struct vg_manager_options)},
	{.size = sizeof(struct vg_manager_options), .no_memory_virtualization = 1},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

// Defines a test that runs with memory virtualization and then without it.
#define TEST_BOTH(name)                                                          \
	static void both_##name(struct vg_manager *manager);                     \
	TEST(name)                                                               \
	{                                                                        \
		for (int kind = 0; kind < KINDS; kind++) {                       \
			struct vg_manager *manager = open_manager(&kinds[kind]); \
			both_##name(manager);                                    \
			vg_manager_destroy(manager);                             \
		}                                                                \
	}                                                                        \
	static void both_##name(struct vg_manager *manager)

TEST_BOTH(a_global_capture_of_the_program_stays_valid)
{
	struct vg_context *context = first_context();
	struct vg_graph_builder *builder;
	char in[4096], out[4096];

	memset(in, 7, sizeof in);
	OK(vg_graph_builder_create(context, &builder));
	OK(vg_graph_builder_begin(builder, VG_GRAPH_CAPTURE_GLOBAL));
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);
	vg_address block = allocate(vgpu, 3 * MIB), left = allocate(vgpu, 5 * MIB);
	OK(vg_virtual_gpu_write(vgpu, block, in, sizeof in));
	OK(vg_virtual_gpu_copy(vgpu, left, block, sizeof in));
	OK(vg_virtual_gpu_set(vgpu, left, 9, 1));
	OK(vg_virtual_gpu_read(vgpu, out, left, sizeof out));
	CHECK(out[0] == 9 && memcmp(in + 1, out + 1, sizeof in - 1) == 0);
	OK(vg_virtual_gpu_free(vgpu, block));
	OK(vg_virtual_gpu_close(vgpu));
	OK(vg_graph_builder_end(builder));
	vg_virtual_gpu_destroy(vgpu);
	vg_graph_builder_destroy(builder);
	vg_context_destroy(context);
}

TEST_BOTH(contents_are_written_and_read)
{
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 16 * MIB);
	vg_address block = allocate(vgpu, 3 * MIB), other = allocate(vgpu, 100);
	char in[100], out[100], zero[100] = {0};

	for (int i = 0; i < 100; i++)
		in[i] = (char)(3 * i);
	OK(vg_virtual_gpu_write(vgpu, other, in, 100));
	OK(vg_virtual_gpu_copy(vgpu, block + 3 * MIB - 100, other, 100));
	OK(vg_virtual_gpu_read(vgpu, out, block + 3 * MIB - 100, 100));
	CHECK(memcmp(in, out, 100) == 0);
	OK(vg_virtual_gpu_set(vgpu, other + 10, 0, 90));
	OK(vg_virtual_gpu_read(vgpu, out, other, 100));
	CHECK(memcmp(in, out, 10) == 0 && memcmp(out + 10, zero, 90) == 0);
	OK(vg_virtual_gpu_read(vgpu, NULL, other + 5, 0));
	OK(vg_virtual_gpu_free(vgpu, block));
	OK(vg_virtual_gpu_free(vgpu, other));
	vg_virtual_gpu_destroy(vgpu);
}

TEST_BOTH(pages_are_charged_once)
{
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 8 * MIB);
	vg_address block = allocate(vgpu, 3 * MIB), more;

	CHECK_INT(info_of(vgpu).memory_allocated, 3 * MIB);
	CHECK_INT(info_of(vgpu).memory_held, 4 * MIB);
	CHECK(info_of(vgpu).memory_utilization == 0.5);
	REFUSED(vg_virtual_gpu_allocate(vgpu, 5 * MIB, 0, &more), VG_INSUFFICIENT, "virtual GPU 1 (vgpu-1): ");
	CHECK_INT(vg_last_error()->need, 6 * MIB);
	CHECK_INT(vg_last_error()->have, 4 * MIB);
	CHECK_INT(info_of(vgpu).refusals, 1);
	OK(vg_virtual_gpu_allocate(vgpu, 4 * MIB, 0, &more));
	CHECK_INT(info_of(vgpu).memory_held, 8 * MIB);
	CHECK_INT(info_of(vgpu).blocks, 2);
	OK(vg_virtual_gpu_free(vgpu, block));
	OK(vg_virtual_gpu_free(vgpu, more));
	CHECK_INT(info_of(vgpu).memory_allocated, 0);
	vg_virtual_gpu_destroy(vgpu);
}

TEST_BOTH(accesses_outside_a_block_are_refused)
{
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 16 * MIB), *other = new_vgpu(manager, 0, 16 * MIB);
	vg_address block = allocate(vgpu, 4096), foreign = allocate(other, 4096), address;
	char bytes[4097] = {0};
	enum vg_status status;

	REFUSED(vg_virtual_gpu_write(vgpu, block, bytes, 4097), VG_BOUNDS, "to");
	REFUSED(vg_virtual_gpu_write(vgpu, block + 1, bytes, SIZE_MAX), VG_BOUNDS, "to");
	REFUSED(vg_virtual_gpu_set(vgpu, block + 4095, 0, 2), VG_BOUNDS, "to");
	REFUSED(vg_virtual_gpu_set(vgpu, block, 256, 1), VG_INVALID, "256");
	REFUSED(vg_virtual_gpu_copy(vgpu, block, block + 10, 100), VG_INVALID, "overlap");
	// Uses addresses of another virtual GPU, and of the host.
	REFUSED(vg_virtual_gpu_write(vgpu, foreign, bytes, 1), VG_BOUNDS, "to");
	REFUSED(vg_virtual_gpu_copy(vgpu, block, foreign, 1), VG_BOUNDS, "from");
	REFUSED(vg_virtual_gpu_free(vgpu, foreign), VG_BOUNDS, "");
	REFUSED(vg_virtual_gpu_write(vgpu, (vg_address)(uintptr_t)bytes, bytes, 1), VG_BOUNDS, "to");
	REFUSED(vg_virtual_gpu_write(vgpu, block, (void *)(uintptr_t)block, 1), VG_INVALID, "device");
	REFUSED(vg_virtual_gpu_read(vgpu, (void *)(uintptr_t)foreign, block, 1), VG_INVALID, "device");
	REFUSED(vg_virtual_gpu_read(vgpu, NULL, block, 1), VG_INVALID, "to is NULL");
	// Uses an address inside a block, and that of a freed block.
	REFUSED(vg_virtual_gpu_free(vgpu, block + 256), VG_INVALID, "into a block");
	OK(vg_virtual_gpu_free(vgpu, block));
	status = vg_virtual_gpu_free(vgpu, block);
	CHECK(status == VG_STALE || status == VG_BOUNDS);
	REFUSED(vg_virtual_gpu_allocate(vgpu, 0, 0, &address), VG_INVALID, "0");
	REFUSED(vg_virtual_gpu_allocate(vgpu, 1, 3, &address), VG_INVALID, "power of two");
	CHECK(vg_virtual_gpu_allocate(vgpu, SIZE_MAX, 0, &address) != VG_OK);
	CHECK(vg_virtual_gpu_allocate(vgpu, SIZE_MAX - MIB, 1ull << 63, &address) != VG_OK);
	vg_virtual_gpu_destroy(vgpu);
	vg_virtual_gpu_destroy(other);
}

TEST_BOTH(blocks_are_aligned)
{
	struct vg_virtual_gpu *vgpu = new_vgpu(manager, 0, 64 * MIB);
	vg_address address;

	for (size_t alignment = 1; alignment <= 4 * MIB; alignment *= 2) {
		OK(vg_virtual_gpu_allocate(vgpu, 1000, alignment, &address));
		CHECK_INT(address % alignment, 0);
		OK(vg_virtual_gpu_set(vgpu, address, 1, 1000));
		OK(vg_virtual_gpu_free(vgpu, address));
	}
	CHECK_INT(info_of(vgpu).memory_allocated, 0);
	vg_virtual_gpu_destroy(vgpu);
}

TEST_BOTH(blocks_are_copied_between_vgpus)
{
	struct vg_virtual_gpu *from = new_vgpu(manager, 0, 16 * MIB), *to = new_vgpu(manager, 0, 16 * MIB);
	vg_address there = allocate(to, 4096), here = allocate(from, 4096);
	unsigned char bytes[4096];

	OK(vg_virtual_gpu_set(from, here, 7, 4096));
	OK(vg_virtual_gpu_copy_peer(to, there, from, here, 4096));
	OK(vg_virtual_gpu_read(to, bytes, there, 4096));
	CHECK_INT(bytes[4095], 7);
	REFUSED(vg_virtual_gpu_copy_peer(to, here, from, here + 8, 1), VG_BOUNDS, "to");
	REFUSED(vg_virtual_gpu_copy_peer(to, there, from, there + 8, 1), VG_BOUNDS, "from");
	REFUSED(vg_virtual_gpu_copy_peer(to, there, NULL, here, 1), VG_INVALID, "NULL");
	vg_virtual_gpu_destroy(from);
	vg_virtual_gpu_destroy(to);
}

static size_t close_and_check(struct vg_manager *manager)
{
	enum { SIZE = 8 << 20 };
	static unsigned char bytes[SIZE];
	struct vg_device *device = first_device();
	size_t before = free_on(device);
	struct vg_virtual_gpu *first = new_vgpu(manager, 0, 64 * MIB);

	for (int i = 0; i < 4; i++)
		OK(vg_virtual_gpu_set(first, allocate(first, SIZE), 0xa5, SIZE));
	OK(vg_virtual_gpu_close(first));
	struct vg_virtual_gpu *second = new_vgpu(manager, 0, 64 * MIB);
	for (int i = 0; i < 4; i++) {
		OK(vg_virtual_gpu_read(second, bytes, allocate(second, SIZE), SIZE));
		for (size_t at = 0; at < SIZE; at++)
			if (bytes[at])
				FAIL("byte %zu of block %d is %#x", at, i, bytes[at]);
	}
	vg_virtual_gpu_destroy(first);
	vg_virtual_gpu_destroy(second);
	return before - free_on(device);
}

// Closes a virtual GPU. The next owner of its memory must read zeros. The check runs twice: during the first, the
// driver also allocates memory that it keeps for itself. After the second, all memory must be free again.
TEST_BOTH(closing_zeroes_and_frees_memory)
{
	close_and_check(manager);
	CHECK_INT(close_and_check(manager), 0);
}

// Copies blocks between memory of both kinds, also of different managers, and of two devices if there are two.
TEST(blocks_are_copied_between_all_kinds_of_memory)
{
	struct vg_device *devices[2] = {first_device(), first_device()};
	unsigned char bytes[4096];
	int count;

	OK(vg_device_count(&count));
	if (count > 1)
		OK(vg_device_get(1, &devices[1]));
	for (int pair = 0; pair < 4; pair++) {
		struct vg_manager *here, *there;
		OK(vg_manager_create(devices[0], &kinds[pair & 1], &here));
		OK(vg_manager_create(devices[1], &kinds[pair >> 1], &there));
		struct vg_virtual_gpu *from = new_vgpu(here, 0, 16 * MIB), *to = new_vgpu(there, 0, 16 * MIB);
		vg_address source = allocate(from, 4096), target = allocate(to, 4096);
		OK(vg_virtual_gpu_set(from, source, 40 + pair, 4096));
		OK(vg_virtual_gpu_copy_peer(to, target, from, source, 4096));
		OK(vg_virtual_gpu_read(to, bytes, target, 4096));
		CHECK_INT(bytes[0], 40 + pair);
		CHECK_INT(bytes[4095], 40 + pair);
		REFUSED(vg_virtual_gpu_copy_peer(to, target, from, source + 1, 4096), VG_BOUNDS, "from");
		REFUSED(vg_virtual_gpu_copy_peer(to, target + 1, from, source, 4096), VG_BOUNDS, "to");
		vg_virtual_gpu_destroy(from);
		vg_virtual_gpu_destroy(to);
		vg_manager_destroy(here);
		vg_manager_destroy(there);
	}
}
