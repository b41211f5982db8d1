// Makes every driver call of a space fail in turn. The space must then be as before the call, and the charges must
// match the allocations.
#include "base/status.h"
#include "core/core_child.h"
#include "core/core_fault.h"
#include "space/space.h"
#include "space_test.h"

enum { BLOCKS = 8 };

static struct vg_memory_space *space;
static vg_address address;
static struct vg_movable_block *block[BLOCKS];
static uint64_t charged;

static enum vg_status charge(void *user, uint64_t bytes)
{
	charged += bytes;
	return VG_OK;
}

static void refund(void *user, uint64_t bytes)
{
	charged -= bytes;
}

static enum vg_status open_it(void)
{
	static const struct space_budget budget = {.charge = charge, .refund = refund};
	struct vg_memory_space_options options = {
		.size = sizeof options, .limit = 64 * MIB, .manual_defragmentation = 1};
	struct vg_device *device;
	struct vg_context *context;

	TRY(vg_device_get(0, &device));
	TRY(vg_context_primary(device, &context));
	enum vg_status status = space_create(context, &options, &budget, &space);
	CHECK(status == VG_OK || space == NULL);
	vg_context_destroy(context);
	return status;
}

// Destroys the space. A call that fails is made again, since the injected fault may have hit it. Closing frees
// everything in any case.
static void clean(void)
{
	for (int i = 0; i < BLOCKS; i++)
		vg_movable_block_destroy(block[i]);
	vg_memory_space_destroy(space);
	CHECK_INT(charged, 0);
}

static void check_charge(void)
{
	check_figures(space);
	CHECK_INT(info_of(space).held, charged);
}

TEST(a_failed_creation_leaves_nothing)
{
	static const struct fault_subject subject = {NULL, open_it, clean};

	FAULT_EVERY_CALL(&subject, "cuDevicePrimaryCtxRetain", "cuMemGetInfo_v2", "cuMemGetAllocationGranularity",
			 "cuMemAddressReserve", "cuStreamCreateWithPriority");
}

// ---- pages ------------------------------------------------------------------------------------------

static size_t size;

static enum vg_status allocate_it(void)
{
	enum vg_status status = vg_memory_space_allocate(space, size, 0, &address);

	if (status) {
		check_charge();
		CHECK_INT(charged, 0);
		CHECK_INT(info_of(space).blocks, 0);
	}
	return status;
}

TEST(a_failed_allocation_leaves_nothing)
{
	static const struct fault_subject subject = {open_it, allocate_it, clean};

	size = 1000;
	FAULT_EVERY_CALL(&subject, "cuMemCreate", "cuMemMap", "cuMemSetAccess");
	size = 3 * PAGE;
	FAULT_EVERY_CALL(&subject, "cuMemCreate", "cuMemMap", "cuMemSetAccess");
}

static enum vg_status leave_empty_pages(void)
{
	vg_address other;

	TRY(open_it());
	TRY(vg_memory_space_allocate(space, 1000, 0, &address));
	TRY(vg_memory_space_allocate(space, 3 * PAGE, 0, &other));
	TRY(vg_memory_space_free(space, address));
	TRY(vg_memory_space_free(space, other));
	CHECK_INT(charged, 4 * PAGE);
	return VG_OK;
}

// Makes the space free its pages while the driver fails to do that. The pages must stay usable, and it must be possible
// to free them later.
static enum vg_status give_back(void)
{
	struct vg_defragment_result result;
	struct vg_error error;
	enum vg_status status = vg_memory_space_defragment(space, &result);

	if (status == VG_OK) {
		CHECK_INT(charged, 0);
		return VG_OK;
	}
	error = *vg_last_error();
	check_charge();
	CHECK(charged > 0);
	const uint64_t before = charged;
	if (charged % (3 * PAGE)) {
		vg_address again = allocate(space, 1000);
		write_pattern(space, again, 1000, 1);
		check_pattern(space, again, 1000, 1);
		CHECK_INT(charged, before);
		OK(vg_memory_space_free(space, again));
	}
	OK(vg_memory_space_defragment(space, &result));
	CHECK_INT(charged, 0);
	CHECK_INT(error.code, CUDA_ERROR_OPERATING_SYSTEM);
	// The caller checks the last error. Other calls have replaced it, so set it again.
	return vg_fail(error.status, error.code, "as above");
}

TEST(pages_that_cannot_be_freed_stay_usable)
{
	static const struct fault_subject subject = {leave_empty_pages, give_back, clean};

	FAULT_EVERY_CALL(&subject, "cuCtxSynchronize", "cuStreamSynchronize", "cuMemsetD8Async", "cuMemRelease",
			 "cuMemUnmap");
}

// ---- copies -----------------------------------------------------------------------------------------

static enum vg_status prepare_copies(void)
{
	TRY(open_it());
	return vg_memory_space_allocate(space, 5000, 0, &address);
}

static enum vg_status use_it(void)
{
	char byte = 1;

	TRY(vg_memory_space_write(space, address, &byte, 1));
	TRY(vg_memory_space_read(space, &byte, address, 1));
	TRY(vg_memory_space_set(space, address, 1, 5000));
	TRY(vg_memory_space_copy(space, address, address + 2500, 2500));
	return vg_memory_space_copy_peer(space, address, space, address + 2500, 2500);
}

TEST(copies)
{
	static const struct fault_subject subject = {prepare_copies, use_it, clean};

	FAULT_EVERY_CALL(&subject, "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2",
			 "cuMemsetD8Async", "cuStreamSynchronize");
}

// ---- compaction -------------------------------------------------------------------------------------

static void check_contents(void)
{
	for (int i = 0; i < BLOCKS; i += 2) {
		vg_address at;
		OK(vg_movable_block_pin(block[i], &at));
		check_pattern(space, at, MIB, (uint64_t)i);
		OK(vg_movable_block_unpin(block[i]));
	}
}

static enum vg_status prepare_compaction(void)
{
	vg_address at;
	static unsigned char data[MIB];

	TRY(open_it());
	for (int i = 0; i < BLOCKS; i++) {
		TRY(vg_movable_block_create(space, MIB, &block[i]));
		TRY(vg_movable_block_pin(block[i], &at));
		fill_pattern(data, MIB, (uint64_t)i);
		TRY(vg_memory_space_write(space, at, data, MIB));
		TRY(vg_movable_block_unpin(block[i]));
	}
	for (int i = 1; i < BLOCKS; i += 2) {
		vg_movable_block_destroy(block[i]);
		block[i] = NULL;
	}
	return VG_OK;
}

static enum vg_status compact_it(void)
{
	struct vg_compact_result result;
	struct vg_error error;
	enum vg_status status = vg_memory_space_compact(space, NULL, &result);

	if (status == VG_OK)
		return VG_OK;
	error = *vg_last_error();
	check_charge();
	check_contents();
	CHECK(!result.complete);
	OK(vg_memory_space_compact(space, NULL, &result));
	check_contents();
	OK(vg_memory_space_defragment(space, NULL));
	CHECK_INT(charged, BLOCKS / 4 * PAGE);
	return vg_fail(error.status, error.code, "as above");
}

TEST(compaction)
{
	static const struct fault_subject subject = {prepare_compaction, compact_it, clean};

	FAULT_EVERY_CALL(&subject, "cuLibraryLoadData", "cuMemHostAlloc", "cuEventCreate", "cuEventRecord",
			 "cuLaunchKernel", "cuEventElapsedTime_v2");
	FAULT_EVERY_CALL(&subject, "cuCtxSynchronize", "cuStreamSynchronize", "cuMemsetD8Async", "cuMemRelease",
			 "cuMemUnmap");
}

// ---- close ------------------------------------------------------------------------------------------

// Closes the space. Memory that cannot be zeroed must be freed anyway, and the call must return an error. A call that
// failed once is made again.
static void close_it(void)
{
	struct vg_device *device;
	size_t before, after;
	const bool lasting = strchr(getenv("VIRGATE_SIM_FAULT"), '+');

	OK(vg_device_get(0, &device));
	OK(vg_device_memory_info(device, &before, NULL));
	OK(open_it());
	OK(vg_memory_space_allocate(space, 3 * PAGE, 0, &address));
	OK(vg_memory_space_allocate(space, 1000, 0, &address));
	CHECK_INT(vg_memory_space_close(space), lasting ? VG_DRIVER : VG_OK);
	CHECK_INT(charged, 0);
	if (lasting)
		CHECK_INT(vg_last_error()->code, CUDA_ERROR_OPERATING_SYSTEM);
	vg_memory_space_destroy(space);
	OK(vg_device_memory_info(device, &after, NULL));
	CHECK_INT(after, before);
}

TEST(closing)
{
	static const char *const entries[] = {"cuCtxSynchronize", "cuMemsetD8Async", "cuMemRelease", "cuMemUnmap"};
	char fault[96];

	if (!getenv("VIRGATE_SIM"))
		SKIP("faults are injected by the simulated driver");
	for (int i = 0; i < 4; i++) {
		snprintf(fault, sizeof fault, "%s:1=CUDA_ERROR_OPERATING_SYSTEM", entries[i]);
		in_child(close_it, "VIRGATE_SIM_FAULT", fault);
		snprintf(fault, sizeof fault, "%s:1+=CUDA_ERROR_OPERATING_SYSTEM", entries[i]);
		// Let every call fail only for the first two entries. The other two free and unmap memory: if they
		// always failed, the memory would stay allocated.
		if (i < 2)
			in_child(close_it, "VIRGATE_SIM_FAULT", fault);
	}
}
