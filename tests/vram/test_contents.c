// Tests copies, fills, loans, and refused accesses.
#include "region_test.h"

#include "vram/vram.h"

TEST(copy_does_not_pass_through_the_host)
{
	struct vg_vram *vram = open_vram(), *other = open_vram();
	struct vg_vram_handle from = allocate(vram, 5000), to = allocate(other, 6000), guarded;

	OK(vg_vram_fill(from, 0, 7, 5000));
	OK(vg_vram_copy(to, 1000, from, 0, 5000)); // the target is a region of another context
	check_bytes(to, 0, 1000, 0);
	check_bytes(to, 1000, 5000, 7);
	OK(vg_vram_allocate(vram, 5000, GUARDED, &guarded));
	OK(vg_vram_copy(guarded, 0, from, 0, 5000));
	check_bytes(guarded, 0, 5000, 7);
	OK(vg_vram_write_at(from, 10, "ab", 2));
	OK(vg_vram_copy(from, 100, from, 10, 2)); // copies within one region
	check_bytes(from, 100, 1, 'a');
	OK(vg_vram_copy(from, 12, from, 10, 2)); // adjacent ranges do not overlap
	check_bytes(from, 13, 1, 'b');
	REFUSED(vg_vram_copy(from, 11, from, 10, 2), VG_INVALID, "overlap");
	REFUSED(vg_vram_copy(from, 10, from, 11, 2), VG_INVALID, "overlap");
	REFUSED(vg_vram_copy(from, 10, from, 10, 1), VG_INVALID, "overlap");
	OK(vg_vram_free(from));
	OK(vg_vram_free(to));
	OK(vg_vram_free(guarded));
	close_vram(vram);
	close_vram(other);
}

TEST(copy_between_devices)
{
	struct vg_vram_options options = {.size = sizeof options};
	const struct vg_vram_allocate_options *kinds[] = {NULL, GUARDED, SHAREABLE};
	struct vg_vram *here = open_vram(), *there;
	int count;

	OK(vg_device_count(&count));
	if (count < 2) {
		close_vram(here);
		SKIP("needs 2 devices, there is 1");
	}
	OK(vg_device_get(1, &options.device));
	OK(vg_vram_open(&options, &there));
	for (size_t i = 0; i < 3; i++) {
		const size_t bytes = 3 * 1000 * 1000;
		struct vg_vram_handle from, to;
		OK(vg_vram_allocate(here, bytes, kinds[i], &from));
		OK(vg_vram_allocate(there, bytes, kinds[2 - i], &to));
		OK(vg_vram_fill(from, 0, 9, bytes));
		OK(vg_vram_write_at(from, 17, "x", 1));
		OK(vg_vram_copy(to, 0, from, 0, bytes));
		check_bytes(to, 17, 1, 'x');
		check_bytes(to, 18, bytes - 18, 9);
		OK(vg_vram_fill(to, 0, 5, bytes));
		OK(vg_vram_copy(from, 1, to, 0, bytes - 1)); // and back
		check_bytes(from, 0, 1, 9);
		check_bytes(from, 1, bytes - 1, 5);
		OK(vg_vram_free(from));
		OK(vg_vram_free(to));
	}
	close_vram(here);
	close_vram(there);
}

TEST(fill_changes_only_its_range)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, 4099);

	OK(vg_vram_fill(handle, 1, 255, 4097));
	check_bytes(handle, 0, 1, 0);
	check_bytes(handle, 1, 4097, 255);
	check_bytes(handle, 4098, 1, 0);
	OK(vg_vram_free(handle));
	close_vram(vram);
}

// Tests long reads, which use another code path than short ones, with several offsets and sizes.
TEST(long_read_returns_the_contents)
{
	const size_t bytes = (9 << 20) + 5;
	const size_t ends[] = {(1 << 20) - 1, 1 << 20, 2 << 20, (2 << 20) + 1, (3 << 20) + 63, bytes};
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, bytes);
	unsigned char *data = malloc(bytes), *copy = malloc(bytes + 64);

	for (size_t i = 0; i < bytes; i++)
		data[i] = (unsigned char)(i * 2654435761u >> 13);
	OK(vg_vram_write_at(handle, 0, data, bytes));
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		for (size_t shift = 0; shift < 35; shift += 17) {
			size_t offset = ends[i] < bytes ? shift : 0;
			memset(copy, 0xee, bytes + 64);
			OK(vg_vram_read_at(handle, offset, copy + shift, ends[i]));
			CHECK(memcmp(copy + shift, data + offset, ends[i]) == 0);
			CHECK(shift == 0 || copy[shift - 1] == 0xee);
			CHECK_INT(copy[shift + ends[i]], 0xee);
		}
	free(data);
	free(copy);
	OK(vg_vram_free(handle));
	close_vram(vram);
}

// ---- loans ------------------------------------------------------------------------------------------

TEST(kernel_uses_the_address_of_a_loan)
{
	struct vg_launch_config config = {.size = sizeof config, .grid = {4}, .block = {64}};
	struct vg_vram *vram = open_vram();
	struct work work = open_work("fill_words");
	struct vg_vram_handle handle = allocate(vram, 4000);
	struct vg_vram_loan loan;

	OK(vg_vram_borrow(handle, VG_VRAM_READ_WRITE, &loan));
	CHECK_INT(loan.bytes, 4000);
	OK(vg_launch(work.stream, &config, work.kernel,
		     (struct vg_argument[]){VG_ARGUMENT(loan.address), VG_ARGUMENT((uint64_t){1000}),
					    VG_ARGUMENT((unsigned){0x05050505})},
		     3));
	OK(vg_stream_sync(work.stream));
	OK(vg_vram_give_back(&loan));
	CHECK_INT(loan.address, 0);
	check_bytes(handle, 0, 4000, 5);
	OK(vg_vram_free(handle));
	close_work(&work);
	close_vram(vram);
}

// Kernels on a non-blocking stream must see earlier writes, although the caller does not wait for these.
TEST(writes_are_visible_on_every_stream)
{
	// BYTES is so small that the driver's copy may return before it is complete
	enum { BYTES = 60000, ROUNDS = 200 };
	struct vg_vram *vram = open_vram();
	struct work work = open_work("get_byte");
	struct vg_launch_config config = {.size = sizeof config, .grid = {1}, .block = {1}};
	struct vg_vram_handle handle = allocate(vram, BYTES), answer = allocate(vram, 1);
	struct vg_vram_loan loan, place;
	unsigned char *data = malloc(BYTES), got;

	OK(vg_vram_borrow(answer, VG_VRAM_READ_WRITE, &place));
	for (int i = 0; i < ROUNDS; i++) {
		memset(data, i, BYTES);
		if (i % 2)
			OK(vg_vram_write_at(handle, 0, data, BYTES));
		OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan));
		if (i % 2 == 0)
			OK(vg_vram_write_at(handle, 0, data, BYTES)); // writes during the loan
		OK(vg_launch(work.stream, &config, work.kernel,
			     (struct vg_argument[]){VG_ARGUMENT(loan.address), VG_ARGUMENT((uint64_t){BYTES - 1}),
						    VG_ARGUMENT(place.address)},
			     3));
		OK(vg_stream_sync(work.stream));
		OK(vg_vram_give_back(&loan));
		OK(vg_vram_read_at(answer, 0, &got, 1));
		CHECK_INT(got, (unsigned char)i);
	}
	OK(vg_vram_give_back(&place));
	free(data);
	OK(vg_vram_free(handle));
	OK(vg_vram_free(answer));
	close_work(&work);
	close_vram(vram);
}

TEST(free_is_refused_during_a_loan)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, 64);
	struct vg_vram_loan first, second, again, none = {0};

	OK(vg_vram_borrow(handle, VG_VRAM_READ, &first));
	OK(vg_vram_borrow(handle, VG_VRAM_READ_WRITE, &second));
	CHECK(first.address == second.address && first.ticket != second.ticket);
	REFUSED(vg_vram_free(handle), VG_BUSY, "on loan");
	CHECK(vg_status_is_retriable(VG_BUSY));
	OK(vg_vram_fill(handle, 0, 1, 64));
	again = first;
	OK(vg_vram_give_back(&first));
	REFUSED(vg_vram_give_back(&again), VG_INVALID, "given back before");
	REFUSED(vg_vram_give_back(&first), VG_INVALID, "none");
	REFUSED(vg_vram_give_back(&none), VG_INVALID, "none");
	REFUSED(vg_vram_give_back(NULL), VG_INVALID, "loan is NULL");
	REFUSED(vg_vram_free(handle), VG_BUSY, "on loan");
	REFUSED(vg_vram_borrow(handle, VG_VRAM_READ_WRITE + 1, &first), VG_INVALID, "access is 2");
	REFUSED(vg_vram_borrow(handle, VG_VRAM_READ, NULL), VG_INVALID, "ret_loan is NULL");
	again = second;
	OK(vg_vram_give_back(&second));
	OK(vg_vram_free(handle));
	REFUSED(vg_vram_give_back(&again), VG_STALE, "names no region");
	close_vram(vram);
}

TEST(loans_end_with_their_context)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, 64);
	struct vg_vram_report report;
	struct vg_vram_loan loans[256];

	for (int i = 0; i < 255; i++)
		OK(vg_vram_borrow(handle, i % 2 ? VG_VRAM_READ : VG_VRAM_READ_WRITE, &loans[i]));
	REFUSED(vg_vram_borrow(handle, VG_VRAM_READ, &loans[255]), VG_BUSY, "255 loans");
	OK(vg_vram_close(vram, &report));
	CHECK_INT(report.regions, 1);
	CHECK_INT(report.loans, 255);
	REFUSED(vg_vram_give_back(&loans[0]), VG_STALE, "closed with its context");
	vg_vram_destroy(vram);
}

// ---- policies ---------------------------------------------------------------------------------------

TEST(frozen_region_refuses_writes)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, 64), other = allocate(vram, 64);
	struct vram_region *region;
	struct vg_vram_loan loan;
	char byte;

	OK(vram_look(handle, &region));
	OK(vg_vram_borrow(handle, VG_VRAM_READ_WRITE, &loan));
	REFUSED(vram_freeze(region), VG_BUSY, "1 loans of the region that may write");
	OK(vg_vram_write_at(handle, 0, "x", 1)); // the failed call did not freeze the region
	OK(vg_vram_give_back(&loan));
	OK(vram_freeze(region));
	REFUSED(vram_freeze(region), VG_POLICY, "sealed already");
	vram_unpin(region, VRAM_READ);
	REFUSED(vg_vram_write_at(handle, 0, "y", 1), VG_POLICY, "frozen");
	REFUSED(vg_vram_fill(handle, 0, 0, 1), VG_POLICY, "frozen");
	REFUSED(vg_vram_copy(handle, 0, other, 0, 1), VG_POLICY, "frozen");
	REFUSED(vg_vram_borrow(handle, VG_VRAM_READ_WRITE, &loan), VG_POLICY, "frozen");
	CHECK(!vg_status_is_retriable(VG_POLICY));
	OK(vg_vram_copy(other, 0, handle, 0, 1));
	OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan));
	OK(vg_vram_give_back(&loan));
	OK(vg_vram_read_at(handle, 0, &byte, 1));
	CHECK_INT(byte, 'x');
	vram_unfreeze(region);
	OK(vg_vram_write_at(handle, 0, "y", 1));
	OK(vg_vram_free(handle));
	OK(vg_vram_free(other));
	close_vram(vram);
}

TEST(quarantined_region_can_only_be_freed)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, 64), other = allocate(vram, 64);
	struct vram_region *region;
	struct vg_vram_loan loan, before;
	size_t bytes;
	char byte;

	OK(vg_vram_borrow(handle, VG_VRAM_READ, &before));
	OK(vram_look(handle, &region));
	vram_quarantine(region);
	vram_unpin(region, VRAM_READ);
	REFUSED(vg_vram_read_at(handle, 0, &byte, 1), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_write_at(handle, 0, &byte, 1), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_fill(handle, 0, 0, 1), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_copy(handle, 0, other, 0, 1), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_copy(other, 0, handle, 0, 1), VG_INTEGRITY, "quarantined");
	REFUSED(vg_vram_borrow(handle, VG_VRAM_READ, &loan), VG_INTEGRITY, "quarantined");
	OK(vg_vram_size(handle, &bytes));
	OK(vg_vram_give_back(&before));
	OK(vg_vram_free(handle));
	OK(vg_vram_free(other));
	close_vram(vram);
}

// ---- zeroing ------------------------------------------------------------------------------------------

// Checks that the memory of a region is zero after the region was freed. A second mapping of the memory shows its
// contents.
static void look_behind(const struct vg_vram_allocate_options *options)
{
	const size_t granule = 2 << 20;
	struct vg_vram *vram = open_vram();
	unsigned char *data = malloc(granule);
	struct vg_address_range *range;
	struct vg_mapping *mapping;
	struct vram_region *region;
	struct vg_vram_handle handle;

	OK(vg_vram_allocate(vram, 5000, options, &handle));
	OK(vg_vram_fill(handle, 0, 0x5e, 5000));
	OK(vram_look(handle, &region));
	OK(vg_address_range_create(granule, 0, 0, &range));
	OK(vg_mapping_create(range, 0, region->memory, &mapping));
	OK(vg_mapping_set_access(mapping, (struct vg_device *[]){vg_vram_device(vram)}, 1, VG_ACCESS_READ));
	vram_unpin(region, VRAM_READ);
	read_words(vram->context, data, vg_mapping_address(mapping), granule);
	CHECK(memchr(data, 0x5e, granule) != NULL); // the mapping shows the region's memory
	OK(vg_vram_free(handle));
	read_words(vram->context, data, vg_mapping_address(mapping), granule);
	for (size_t i = 0; i < granule; i++)
		CHECK_INT(data[i], 0);
	vg_mapping_destroy(mapping);
	vg_address_range_destroy(range);
	free(data);
	close_vram(vram);
}

TEST(free_zeroes_the_memory)
{
	look_behind(SHAREABLE);
	look_behind(GUARDED);
}

// ---- imports ----------------------------------------------------------------------------------------

static int unmapped;

static enum vg_status unmap(void *user)
{
	unmapped++;
	return *(bool *)user ? vg_fail(VG_DRIVER, 1, "cuMemUnmap: made to fail") : VG_OK;
}

TEST(free_of_an_import_unmaps_without_zeroing)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle owner = allocate(vram, 100), import;
	struct vg_vram_capacity capacity;
	struct vram_region *region;
	bool fails = false;
	char byte;

	OK(vram_look(owner, &region));
	struct vram_region description = {.address = region->address,
					  .size = 50,
					  .base = region->address,
					  .mapped = 100,
					  .import = {unmap, &fails, .read_only = true}};
	vram_unpin(region, VRAM_READ);
	OK(vg_vram_fill(owner, 0, 3, 100));
	for (unmapped = 0; unmapped < 2;) {
		OK(vram_publish(vram, &description, &import));
		REFUSED(vg_vram_write_at(import, 0, "x", 1), VG_POLICY, "imported for reading");
		OK(vg_vram_read_at(import, 49, &byte, 1));
		CHECK_INT(byte, 3);
		REFUSED(vg_vram_read_at(import, 50, &byte, 1), VG_BOUNDS, "the region has 50");
		if (unmapped == 0)
			OK(vg_vram_free(import));
		else
			REFUSED(vg_vram_free(import), VG_DRIVER, "made to fail");
		REFUSED(vg_vram_free(import), VG_STALE, "names no region");
		check_bytes(owner, 0, 100, 3);
		fails = true;
	}
	OK(vg_vram_capacity(vram, &capacity));
	CHECK_INT(capacity.regions, 1);
	OK(vg_vram_free(owner));
	close_vram(vram);
	vram = open_vram();
	OK(vg_vram_close(vram, NULL));
	REFUSED(vram_publish(vram, &description, &import), VG_CLOSED, "has been closed");
	vg_vram_destroy(vram);
}
