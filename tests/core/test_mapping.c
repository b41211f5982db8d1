// Tests the parts of virtual memory: physical memory, addresses, mappings.
#include "memory_test.h"

TEST(memory_is_mapped_at_several_addresses)
{
	struct bench b = open_bench();
	struct vg_physical_memory *memory;
	struct vg_address_range *range;
	struct vg_mapping *first, *second, *none = NULL;
	struct vg_buffer *one, *two;
	unsigned word = 0;
	size_t granule = get_granularity(b.device), before = free_on(b.device);

	OK(vg_physical_memory_create(b.device, granule, NULL, &memory));
	CHECK_INT(before - free_on(b.device), granule);
	OK(vg_address_range_create(3 * granule, 0, 0, &range));
	CHECK_INT(vg_address_range_size(range), 3 * granule);
	OK(vg_mapping_create(range, 0, memory, &first));
	OK(vg_mapping_create(range, 2 * granule, memory, &second));
	CHECK(vg_mapping_address(second) == vg_address_range_address(range) + 2 * granule);
	CHECK_INT(vg_mapping_size(second), granule);
	REFUSED(vg_mapping_create(range, 2 * granule + 1, memory, &none), VG_INVALID, "the range has");
	REFUSED(vg_mapping_create(range, SIZE_MAX, memory, &none), VG_INVALID, "the range has");
	REFUSED(vg_mapping_create(range, 0, memory, &none), VG_DRIVER, "cuMemMap");
	OK(vg_mapping_set_access(first, &b.device, 1, VG_ACCESS_READ_WRITE));
	OK(vg_mapping_set_access(second, &b.device, 1, VG_ACCESS_READ));
	// The physical memory and the addresses can be destroyed first: a mapping keeps them.
	vg_physical_memory_destroy(memory);
	vg_address_range_destroy(range);
	CHECK_INT(before - free_on(b.device), granule);
	OK(vg_buffer_borrow(vg_mapping_address(first), granule, NULL, &one));
	struct vg_buffer_borrow_options options = {
		.size = sizeof options, .owner = second, .release = (void (*)(void *))vg_mapping_destroy};
	OK(vg_buffer_borrow(vg_mapping_address(second), granule, &options, &two));
	OK(vg_buffer_fill(one, &(unsigned){815}, 4, b.stream));
	OK(vg_buffer_read(two, granule - 4, &word, 4, b.stream));
	OK(vg_stream_sync(b.stream));
	CHECK_INT(word, 815);
	vg_buffer_destroy(one);
	OK(vg_mapping_close(first));
	OK(vg_mapping_close(first));
	CHECK_INT(vg_mapping_address(first), 0);
	REFUSED(vg_mapping_set_access(first, &b.device, 1, VG_ACCESS_READ), VG_CLOSED, "the mapping has been closed");
	vg_mapping_destroy(first);
	OK(vg_buffer_read(two, 0, &word, 4, b.stream));
	OK(vg_stream_sync(b.stream));
	vg_buffer_destroy(two); // destroying the buffer frees the mapping, too
	CHECK_INT(free_on(b.device), before);
	close_bench(&b);
}

TEST(invalid_virtual_memory_calls_are_refused)
{
	struct bench b = open_bench();
	struct vg_physical_memory *memory = NULL;
	struct vg_address_range *range = NULL;
	struct vg_mapping *mapping = NULL;
	size_t granule = get_granularity(b.device);

	REFUSED(vg_physical_memory_create(b.device, 0, NULL, &memory), VG_INVALID, "size is 0");
	REFUSED(vg_physical_memory_create(NULL, 1, NULL, &memory), VG_INVALID, "device is NULL");
	REFUSED(vg_physical_memory_create(b.device, 1, NULL, NULL), VG_INVALID, "ret_memory is NULL");
	REFUSED(vg_physical_memory_create(b.device, (size_t)1 << 50, NULL, &memory), VG_DRIVER, "asked for 1.0 PiB");
	REFUSED(vg_physical_memory_import(b.device, -1, granule, &memory), VG_INVALID, "descriptor -1 is not open");
	REFUSED(vg_physical_memory_import(b.device, 0, 0, &memory), VG_INVALID, "size is 0");
	REFUSED(vg_physical_memory_import(b.device, 2, granule, &memory), VG_DRIVER, "descriptor 2");
	REFUSED(vg_address_range_create(0, 0, 0, &range), VG_INVALID, "0 bytes of addresses");
	REFUSED(vg_address_range_create(4097, 0, 0, &range), VG_INVALID, "multiples of 4096");
	REFUSED(vg_address_range_create(4096, 3, 0, &range), VG_INVALID, "power of two");
	REFUSED(vg_address_range_create((size_t)1 << 62, 0, 0, &range), VG_DRIVER, "cuMemAddressReserve");
	REFUSED(vg_address_range_create(4096, 0, 0, NULL), VG_INVALID, "ret_range is NULL");
	CHECK(!memory && !range);
	OK(vg_physical_memory_create(b.device, granule, NULL, &memory));
	OK(vg_address_range_create(granule, 0, 0, &range));
	REFUSED(vg_mapping_create(NULL, 0, memory, &mapping), VG_INVALID, "range is NULL");
	REFUSED(vg_mapping_create(range, 0, NULL, &mapping), VG_INVALID, "memory is NULL");
	REFUSED(vg_mapping_create(range, 0, memory, NULL), VG_INVALID, "ret_mapping is NULL");
	CHECK(!mapping);
	OK(vg_mapping_create(range, 0, memory, &mapping));
	REFUSED(vg_mapping_set_access(mapping, &b.device, 0, VG_ACCESS_READ), VG_INVALID, "count is 0");
	REFUSED(vg_mapping_set_access(mapping, NULL, 1, VG_ACCESS_READ), VG_INVALID, "devices is NULL");
	REFUSED(vg_mapping_set_access(mapping, (struct vg_device *[]){NULL}, 1, VG_ACCESS_READ), VG_INVALID,
		"devices[0] is NULL");
	REFUSED(vg_mapping_set_access(mapping, &b.device, 1, 9), VG_INVALID, "access is 9");
	OK(vg_address_range_close(range));
	OK(vg_physical_memory_close(memory));
	CHECK(vg_address_range_size(range) == 0 && vg_physical_memory_size(memory) == 0);
	REFUSED(vg_mapping_create(range, 0, memory, &mapping), VG_CLOSED, "the address range has been closed");
	REFUSED(vg_physical_memory_export(memory, &(int){0}), VG_CLOSED, "the physical memory has been closed");
	REFUSED(vg_mapping_close(NULL), VG_INVALID, "mapping is NULL");
	REFUSED(vg_address_range_close(NULL), VG_INVALID, "range is NULL");
	REFUSED(vg_physical_memory_close(NULL), VG_INVALID, "memory is NULL");
	vg_mapping_destroy(mapping);
	vg_mapping_destroy(NULL);
	vg_address_range_destroy(range);
	vg_physical_memory_destroy(memory);
	vg_physical_memory_destroy(NULL);
	close_bench(&b);
}

TEST(physical_memory_is_exported_and_imported)
{
	struct bench b = open_bench();
	struct vg_physical_memory *memory, *imported;
	struct vg_address_range *range;
	struct vg_mapping *mapping = NULL, *other;
	unsigned word = 0;
	int descriptor;
	size_t granule = get_granularity(b.device), before = free_on(b.device);

	OK(vg_physical_memory_create(b.device, granule, NULL, &memory));
	OK(vg_physical_memory_export(memory, &descriptor));
	OK(vg_physical_memory_import(b.device, descriptor, 2 * granule, &imported));
	OK(vg_address_range_create(2 * granule, 0, 0, &range));
	REFUSED(vg_mapping_create(range, 0, imported, &mapping), VG_DRIVER, "cuMemMap"); // the size is wrong
	CHECK(!mapping);
	vg_physical_memory_destroy(imported);
	OK(vg_physical_memory_import(b.device, descriptor, granule, &imported));
	close(descriptor);
	OK(vg_mapping_create(range, 0, memory, &mapping));
	OK(vg_mapping_create(range, granule, imported, &other));
	OK(vg_mapping_set_access(mapping, &b.device, 1, VG_ACCESS_READ_WRITE));
	OK(vg_mapping_set_access(other, &b.device, 1, VG_ACCESS_READ_WRITE));
	struct vg_buffer *one, *two;
	OK(vg_buffer_borrow(vg_mapping_address(mapping), granule, NULL, &one));
	OK(vg_buffer_borrow(vg_mapping_address(other), granule, NULL, &two));
	OK(vg_buffer_fill(one, &(unsigned){31}, 4, b.stream));
	OK(vg_buffer_read(two, 4, &word, 4, b.stream));
	OK(vg_stream_sync(b.stream));
	CHECK_INT(word, 31);
	vg_buffer_destroy(one);
	vg_buffer_destroy(two);
	vg_mapping_destroy(mapping);
	vg_mapping_destroy(other);
	vg_address_range_destroy(range);
	vg_physical_memory_destroy(memory);
	vg_physical_memory_destroy(imported);
	CHECK_INT(free_on(b.device), before);
	close_bench(&b);
}
