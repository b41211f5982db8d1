// Tests virtual memory: the resource with every option, and growth.
#include "memory_test.h"

#include <stdbool.h>

#define OPTIONS(...) \
	(&(struct vg_virtual_memory_options){.size = sizeof(struct vg_virtual_memory_options), __VA_ARGS__})
enum { MIB = 1 << 20 };

// Writes a word at the start of every MiB of the buffer. The first word is `first`, and each further word is one more.
static void write_words(struct vg_buffer *buffer, unsigned first, struct vg_stream *stream)
{
	unsigned count = (unsigned)(vg_buffer_size(buffer) / MIB);

	for (unsigned i = 0; i < count; i++) {
		unsigned word = first + i;
		OK(vg_buffer_write(buffer, (size_t)i * MIB, &word, sizeof word, stream));
		OK(vg_stream_sync(stream));
	}
}

static void check(struct vg_buffer *buffer, unsigned from_mib, unsigned to_mib, unsigned first,
		  struct vg_stream *stream)
{
	for (unsigned i = from_mib; i < to_mib; i++) {
		unsigned word = ~0u;
		OK(vg_buffer_read(buffer, (size_t)i * MIB, &word, sizeof word, stream));
		OK(vg_stream_sync(stream));
		CHECK_INT(word, first + i);
	}
}

// ---- the resource -----------------------------------------------------------------------------------

TEST(virtual_buffer_is_rounded_and_freed)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource;
	struct vg_memory_properties p;
	struct vg_buffer *buffer;
	size_t granule = get_granularity(b.device), before = free_on(b.device);

	OK(vg_virtual_memory_resource_create(b.device, NULL, &resource));
	CHECK_STR(vg_memory_resource_name(resource), "virtual memory resource");
	OK(vg_memory_resource_properties(resource, &p));
	CHECK(p.device == 0 && p.device_accessible && !p.host_accessible && !p.managed);
	OK(vg_buffer_create(resource, granule + 1, NULL, &buffer));
	CHECK_INT(vg_buffer_size(buffer), 2 * granule);
	CHECK_INT(before - free_on(b.device), 2 * granule);
	OK(vg_buffer_fill_byte(buffer, 1, b.stream));
	OK(vg_stream_sync(b.stream));
	OK(vg_buffer_close(buffer, NULL));
	CHECK_INT(free_on(b.device), before); // the buffer's memory is freed at once
	vg_buffer_destroy(buffer);
	OK(vg_buffer_create(resource, 0, NULL, &buffer));
	CHECK(vg_buffer_size(buffer) == 0 && vg_buffer_address(buffer) == 0);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

TEST(virtual_buffer_is_unmapped_after_the_work_of_its_stream)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource;
	struct vg_buffer *buffer;

	OK(vg_virtual_memory_resource_create(b.device, NULL, &resource));
	for (int i = 0; i < 20; i++) {
		OK(vg_buffer_create(resource, 64 * MIB, b.stream, &buffer));
		OK(vg_buffer_fill_byte(buffer, i, b.stream));
		// Waits for the stream before it unmaps the memory. Otherwise the stream's writes would fault.
		vg_buffer_destroy(buffer);
	}
	OK(vg_stream_sync(b.stream));
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

TEST(virtual_buffer_on_a_capturing_stream)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource;
	struct vg_buffer *buffer, *none = NULL;
	size_t before = free_on(b.device);

	OK(vg_virtual_memory_resource_create(b.device, NULL, &resource));
	OK(vg_buffer_create(resource, 2 * MIB, b.stream, &buffer));
	struct vg_graph_builder *builder = begin_capture(b.stream);
	REFUSED(vg_buffer_create(resource, 2 * MIB, b.stream, &none), VG_STATE, "on a capturing stream");
	REFUSED(vg_buffer_close(buffer, NULL), VG_STATE, "on a capturing stream");
	vg_buffer_destroy(buffer);
	OK(vg_graph_builder_end(builder));
	vg_graph_builder_destroy(builder);
	OK(vg_buffer_create(b.pool, 0, b.stream, &none));
	vg_buffer_destroy(none);
	CHECK_INT(free_on(b.device), before);
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

TEST(virtual_memory_hint_and_alignment)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource = NULL;
	struct vg_address_range *range;
	struct vg_buffer *buffer;
	size_t granule = get_granularity(b.device);

	// Create a buffer at an address that has just become free.
	OK(vg_address_range_create(4 * granule, 0, 0, &range));
	vg_address place = vg_address_range_address(range);
	vg_address_range_destroy(range);
	OK(vg_virtual_memory_resource_create(b.device, OPTIONS(.address_hint = place), &resource));
	OK(vg_buffer_create(resource, granule, NULL, &buffer));
	CHECK(vg_buffer_address(buffer) == place);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(resource);
	OK(vg_virtual_memory_resource_create(b.device, OPTIONS(.alignment = 64 * MIB), &resource));
	OK(vg_buffer_create(resource, granule, NULL, &buffer));
	CHECK_INT(vg_buffer_address(buffer) % (64 * MIB), 0);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(resource);
	resource = NULL;
	REFUSED(vg_virtual_memory_resource_create(b.device, OPTIONS(.alignment = 3 * MIB), &resource), VG_INVALID,
		"it must be a power of two");
	REFUSED(vg_virtual_memory_resource_create(b.device, OPTIONS(.address_hint = place + 4096), &resource),
		VG_INVALID, "it must be a multiple of");
	REFUSED(vg_virtual_memory_resource_create(
			b.device, OPTIONS(.alignment = 64 * MIB, .address_hint = 3 * 64 * MIB + granule), &resource),
		VG_INVALID, "it must be a multiple of 67108864");
	CHECK(!resource);
	close_bench(&b);
}

TEST(virtual_memory_options_out_of_range)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource = NULL;
	struct vg_buffer *buffer = NULL;

#define BAD(part, ...) \
	REFUSED(vg_virtual_memory_resource_create(b.device, OPTIONS(__VA_ARGS__), &resource), VG_INVALID, part)
	BAD("allocation_type is 2", .allocation_type = 2);
	BAD("location.type is 9", .location = {9, 0});
	BAD("location.id is 1: the memory is of device 0", .location = {VG_LOCATION_DEVICE, 1});
	BAD("location.id is -1: a NUMA node is 0 or more", .location = {VG_LOCATION_HOST_NUMA, -1});
	BAD("handle_type is 17", .handle_type = 17);
	BAD("granularity is 2", .granularity = 2);
	BAD("self_access is 5 and peer_access 0", .self_access = 5);
	BAD("peer_access 3", .peer_access = 3);
	BAD("peers is NULL, and peer_count 2", .peer_count = 2);
	BAD("peer_count is 768614336404564650", .peer_count = SIZE_MAX / 24, .peers = (struct vg_device *[]){b.device});
	BAD("peers[0] is NULL", .peer_count = 1, .peers = (struct vg_device *[]){NULL});
	BAD("memory at HOST has no handles", .location = {VG_LOCATION_HOST, 0}, .handle_type = VG_HANDLE_POSIX_FD);
	REFUSED(vg_virtual_memory_resource_create(b.device, OPTIONS(.handle_type = VG_HANDLE_WIN32_KMT), &resource),
		VG_UNSUPPORTED, "is Windows'");
	REFUSED(vg_virtual_memory_resource_create(b.device, OPTIONS(.handle_type = VG_HANDLE_WIN32), &resource),
		VG_UNSUPPORTED, "is Windows'");
	REFUSED(vg_virtual_memory_resource_create(NULL, NULL, &resource), VG_INVALID, "device is NULL");
	REFUSED(vg_virtual_memory_resource_create(b.device, NULL, NULL), VG_INVALID, "ret_resource is NULL");
	CHECK(!resource);
	OK(vg_virtual_memory_resource_create(b.device, NULL, &resource));
	REFUSED(vg_buffer_create(resource, SIZE_MAX, NULL, &buffer), VG_INVALID, "are too many");
	REFUSED(vg_buffer_borrow(0x1000, 16,
				 &(struct vg_buffer_borrow_options){.size = sizeof(struct vg_buffer_borrow_options),
								    .resource = resource},
				 &buffer),
		VG_INVALID, "frees only what it allocated itself");
	CHECK(!buffer);
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

TEST(virtual_memory_unsupported_by_the_device)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource = NULL;
	int rdma, fabric;

	OK(vg_device_property(b.device, VG_DEVICE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, &rdma));
	if (!rdma)
		REFUSED(vg_virtual_memory_resource_create(b.device, OPTIONS(.gpu_direct_rdma = 1), &resource),
			VG_UNSUPPORTED, "GPU Direct RDMA is not supported on device 0");
	else
		OK(vg_virtual_memory_resource_create(b.device, OPTIONS(.gpu_direct_rdma = 1), &resource));
	vg_memory_resource_destroy(resource);
	resource = NULL;
	OK(vg_device_property(b.device, VG_DEVICE_HANDLE_TYPE_FABRIC_SUPPORTED, &fabric));
	if (!fabric)
		REFUSED(vg_virtual_memory_resource_create(b.device, OPTIONS(.handle_type = VG_HANDLE_FABRIC),
							  &resource),
			VG_UNSUPPORTED, "a fabric handle is not supported on device 0");
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

TEST(virtual_memory_minimum_granularity_and_no_handles)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource;
	struct vg_physical_memory *memory;
	struct vg_buffer *buffer;
	int descriptor = -1;

	OK(vg_virtual_memory_resource_create(
		b.device, OPTIONS(.granularity = VG_GRANULARITY_MINIMUM, .handle_type = VG_HANDLE_NONE), &resource));
	OK(vg_buffer_create(resource, 1, NULL, &buffer));
	OK(vg_buffer_fill_byte(buffer, 1, b.stream));
	OK(vg_stream_sync(b.stream));
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(resource);
	OK(vg_physical_memory_create(b.device, 1, OPTIONS(.handle_type = VG_HANDLE_NONE), &memory));
	REFUSED(vg_physical_memory_export(memory, &descriptor), VG_STATE, "made without VG_HANDLE_POSIX_FD");
	CHECK_INT(descriptor, -1);
	vg_physical_memory_destroy(memory);
	close_bench(&b);
}

TEST(virtual_memory_access)
{
	static const struct {
		enum vg_access access;
		int flags;
	} cases[] = {{VG_ACCESS_READ_WRITE, 3}, {VG_ACCESS_READ, 1}, {VG_ACCESS_NONE, 0}};
	struct bench b = open_bench();

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct vg_memory_resource *resource;
		struct vg_memory_properties p;
		struct vg_buffer *buffer;
		OK(vg_virtual_memory_resource_create(b.device, OPTIONS(.self_access = cases[i].access), &resource));
		OK(vg_memory_resource_properties(resource, &p));
		CHECK_INT(p.device_accessible, cases[i].access != VG_ACCESS_NONE);
		OK(vg_buffer_create(resource, 1, NULL, &buffer));
		CHECK_INT(access_of(vg_buffer_address(buffer), 0), cases[i].flags);
		vg_buffer_destroy(buffer);
		vg_memory_resource_destroy(resource);
	}
	close_bench(&b);
}

TEST(virtual_host_memory)
{
	static const enum vg_location_type places[] = {VG_LOCATION_HOST, VG_LOCATION_HOST_NUMA,
						       VG_LOCATION_HOST_NUMA_CURRENT};
	struct bench b = open_bench();
	int supported, on_node;

	OK(vg_device_property(b.device, VG_DEVICE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &supported));
	OK(vg_device_property(b.device, VG_DEVICE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &on_node));
	if (!supported || !on_node)
		SKIP("the device maps no host memory");
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		struct vg_memory_resource *resource;
		struct vg_memory_properties p;
		struct vg_buffer *buffer;
		OK(vg_virtual_memory_resource_create(b.device, OPTIONS(.location = {places[i], 0}), &resource));
		OK(vg_memory_resource_properties(resource, &p));
		CHECK(p.device == -1 && p.device_accessible && p.host_accessible);
		OK(vg_buffer_create(resource, 1, b.stream, &buffer));
		OK(vg_buffer_fill_byte(buffer, 7, b.stream));
		OK(vg_stream_sync(b.stream));
		CHECK_INT(*(unsigned char *)(uintptr_t)vg_buffer_address(buffer), 7);
		vg_buffer_destroy(buffer);
		vg_memory_resource_destroy(resource);
	}
	close_bench(&b);
}

// ---- growth -------------------------------------------------------------------------------------------

// Returns whether the driver reserves a range at this address when it is given as a hint. The simulated driver follows
// every hint; other drivers need not.
static bool reserves_at(vg_address place, size_t size)
{
	struct vg_address_range *range;

	OK(vg_address_range_create(size, 0, place, &range));
	bool there = vg_address_range_address(range) == place;
	vg_address_range_destroy(range);
	return there || !getenv("VIRGATE_SIM");
}

TEST(buffer_grows_in_place)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource;
	struct vg_buffer *small, *large, *larger;
	size_t before = free_on(b.device);

	OK(vg_virtual_memory_resource_create(b.device, NULL, &resource));
	OK(vg_buffer_create(resource, 4 * MIB, b.stream, &small));
	vg_address place = vg_buffer_address(small);
	write_words(small, 100, b.stream);
	OK(vg_buffer_grow(small, 10 * MIB, NULL, &large));
	CHECK(large != small);
	CHECK(vg_buffer_address(large) == place || !getenv("VIRGATE_SIM"));
	CHECK_INT(vg_buffer_size(large), 10 * MIB);
	CHECK_INT(vg_buffer_size(small), 4 * MIB);
	CHECK_INT(before - free_on(b.device), 10 * MIB);
	check(large, 0, 4, 100, b.stream);
	OK(vg_buffer_fill_byte(large, 0, b.stream));
	write_words(large, 200, b.stream);
	OK(vg_buffer_grow(large, 12 * MIB, NULL, &larger));
	vg_buffer_destroy(small);
	check(larger, 0, 10, 200, b.stream);
	vg_buffer_destroy(larger); // the newest buffer is destroyed first
	check(large, 0, 10, 200, b.stream);
	CHECK_INT(before - free_on(b.device), 10 * MIB);
	vg_buffer_destroy(large);
	CHECK_INT(free_on(b.device), before);
	CHECK(reserves_at(place, 12 * MIB)); // the addresses are free again
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

TEST(buffer_grows_at_another_address)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource;
	struct vg_address_range *wall;
	struct vg_buffer *small, *large, *larger;
	size_t before = free_on(b.device);

	OK(vg_virtual_memory_resource_create(b.device, NULL, &resource));
	OK(vg_buffer_create(resource, 4 * MIB, b.stream, &small));
	vg_address place = vg_buffer_address(small);
	OK(vg_address_range_create(4 * MIB, 0, place + 4 * MIB, &wall));
	// If the addresses behind the buffer are free, the buffer grows in place.
	bool walled = vg_address_range_address(wall) == place + 4 * MIB;
	CHECK(walled || !getenv("VIRGATE_SIM"));
	write_words(small, 100, b.stream);
	OK(vg_buffer_grow(small, 10 * MIB, NULL, &large));
	CHECK(!walled || vg_buffer_address(large) != place);
	CHECK_INT(before - free_on(b.device), 10 * MIB); // memory that both buffers use counts only once
	check(large, 0, 4, 100, b.stream);
	check(small, 0, 4, 100, b.stream); // the smaller buffer is still valid at its own address
	write_words(large, 300, b.stream);
	check(small, 0, 4, 300, b.stream);
	vg_address_range_destroy(wall);
	vg_buffer_destroy(small);
	check(large, 0, 10, 300, b.stream);
	CHECK_INT(before - free_on(b.device), 10 * MIB);
	// Grows the buffer again; it then has several mappings.
	OK(vg_buffer_grow(large, 12 * MIB, NULL, &larger));
	vg_address_range_destroy(NULL);
	vg_buffer_destroy(large);
	check(larger, 0, 10, 300, b.stream);
	vg_buffer_destroy(larger);
	CHECK_INT(free_on(b.device), before);
	CHECK(reserves_at(place, 12 * MIB));
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

TEST(growth_with_another_granularity)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource;
	struct vg_buffer *small, *large;

	OK(vg_virtual_memory_resource_create(b.device, NULL, &resource));
	OK(vg_buffer_create(resource, 4 * MIB, b.stream, &small));
	vg_address place = vg_buffer_address(small);
	write_words(small, 100, b.stream);
	// The buffer's address does not have the requested alignment: another address is necessary.
	size_t alignment = 4 * MIB;
	while (place % alignment == 0)
		alignment *= 2;
	OK(vg_buffer_grow(small, 6 * MIB, OPTIONS(.alignment = alignment), &large));
	CHECK_INT(vg_buffer_address(large) % alignment, 0);
	CHECK_INT(vg_buffer_size(large), 6 * MIB);
	check(large, 0, 4, 100, b.stream);
	vg_buffer_destroy(large);
	// The buffer's address has the alignment: the buffer can grow in place.
	OK(vg_buffer_grow(small, 6 * MIB, OPTIONS(.alignment = alignment / 2), &large));
	CHECK(vg_buffer_address(large) == place || !getenv("VIRGATE_SIM"));
	check(large, 0, 4, 100, b.stream);
	vg_buffer_destroy(large);
	vg_buffer_destroy(small);
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

TEST(growth_to_a_smaller_size_and_new_access)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource;
	struct vg_buffer *buffer, *same, *grown, *borrowed, *none = NULL;

	OK(vg_virtual_memory_resource_create(b.device, NULL, &resource));
	OK(vg_buffer_create(resource, 4 * MIB, NULL, &buffer));
	OK(vg_buffer_grow(buffer, 3 * MIB, NULL, &same));
	CHECK(same == buffer);
	vg_buffer_destroy(same);
	OK(vg_buffer_grow(buffer, 4 * MIB, OPTIONS(.self_access = VG_ACCESS_READ), &same));
	CHECK(same == buffer);
	vg_buffer_destroy(same);
	CHECK_INT(access_of(vg_buffer_address(buffer), 0), 1);
	OK(vg_buffer_grow(buffer, 6 * MIB, OPTIONS(.self_access = VG_ACCESS_READ_WRITE), &grown));
	CHECK_INT(access_of(vg_buffer_address(grown), 0), 3);
	CHECK_INT(access_of(vg_buffer_address(grown) + 5 * MIB, 0), 3);
	OK(vg_buffer_fill_byte(grown, 1, b.stream));
	OK(vg_stream_sync(b.stream));
	REFUSED(vg_buffer_grow(grown, 8 * MIB, OPTIONS(.alignment = 3), &none), VG_INVALID, "power of two");
	REFUSED(vg_buffer_grow(grown, SIZE_MAX, NULL, &none), VG_INVALID, "are too many");
	REFUSED(vg_buffer_grow(grown, (size_t)1 << 45, NULL, &none), VG_DRIVER, "CUDA_ERROR_OUT_OF_MEMORY");
	REFUSED(vg_buffer_grow(NULL, MIB, NULL, &none), VG_INVALID, "buffer is NULL");
	REFUSED(vg_buffer_grow(grown, MIB, NULL, NULL), VG_INVALID, "ret_buffer is NULL");
	OK(vg_buffer_borrow(vg_buffer_address(grown), MIB, NULL, &borrowed));
	REFUSED(vg_buffer_grow(borrowed, 2 * MIB, NULL, &none), VG_INVALID,
		"a buffer of a borrowed address cannot grow");
	vg_buffer_destroy(borrowed);
	OK(vg_buffer_create(b.pool, MIB, b.stream, &borrowed));
	REFUSED(vg_buffer_grow(borrowed, 2 * MIB, NULL, &none), VG_INVALID, "a buffer of a device pool cannot grow");
	vg_buffer_destroy(borrowed);
	OK(vg_buffer_create(resource, 0, NULL, &borrowed));
	REFUSED(vg_buffer_grow(borrowed, 2 * MIB, NULL, &none), VG_INVALID, "has 0 bytes");
	vg_buffer_destroy(borrowed);
	CHECK(!none);
	OK(vg_memory_resource_close(resource));
	REFUSED(vg_buffer_grow(grown, 16 * MIB, NULL, &none), VG_CLOSED, "the virtual memory resource has been closed");
	OK(vg_buffer_close(buffer, NULL));
	REFUSED(vg_buffer_grow(buffer, 8 * MIB, NULL, &none), VG_CLOSED, "the buffer has been closed");
	vg_buffer_destroy(buffer);
	vg_buffer_destroy(grown);
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}

TEST(virtual_memory_does_not_leak)
{
	struct bench b = open_bench();
	struct vg_memory_resource *resource;
	int rounds = getenv("VIRGATE_TEST_FULL") ? 100000 : 1000;
	size_t before = free_on(b.device);

	OK(vg_virtual_memory_resource_create(b.device, NULL, &resource));
	for (int i = 0; i < rounds; i++) {
		struct vg_buffer *small, *large;
		OK(vg_buffer_create(resource, 1, NULL, &small));
		OK(vg_buffer_grow(small, vg_buffer_size(small) + 1, NULL, &large));
		vg_buffer_destroy(i % 2 ? small : large);
		vg_buffer_destroy(i % 2 ? large : small);
	}
	CHECK_INT(free_on(b.device), before);
	vg_memory_resource_destroy(resource);
	close_bench(&b);
}
