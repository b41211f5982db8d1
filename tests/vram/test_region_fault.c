// Lets each driver call that allocates, uses or frees a region fail in turn.
#include "core/core_child.h"
#include "core/core_fault.h"
#include "region_test.h"

static struct vg_vram *vram;
static struct vg_vram_handle handle;
static const struct vg_vram_allocate_options *kind;

static enum vg_status open_it(void)
{
	return vg_vram_open(NULL, &vram);
}

static enum vg_status allocate_it(void)
{
	enum vg_status status = vg_vram_allocate(vram, 5000, kind, &handle);

	if (status && handle.value)
		FAIL("a handle came with a failure");
	return status;
}

static void clean(void)
{
	// Frees the region. If that fails, tries again, because the injected fault may hit the first attempt.
	if (handle.value && vg_vram_free(handle) && vg_vram_free(handle))
		FAIL("not freed: %s", vg_last_error()->text);
	vg_vram_destroy(vram);
}

TEST(open_survives_each_driver_failure)
{
	static const struct fault_subject subject = {NULL, open_it, clean};

	FAULT_EVERY_CALL(&subject, "cuDevicePrimaryCtxRetain", "cuMemGetAllocationGranularity");
}

TEST(plain_regions_survive_each_driver_failure)
{
	static const struct fault_subject subject = {open_it, allocate_it, clean};

	kind = NULL;
	FAULT_EVERY_CALL(&subject, "cuMemAlloc_v2", "cuMemsetD8Async", "cuStreamSynchronize");
}

TEST(guarded_regions_survive_each_driver_failure)
{
	static const struct fault_subject subject = {open_it, allocate_it, clean};

	kind = GUARDED;
	FAULT_EVERY_CALL(&subject, "cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
			 "cuMemsetD8Async", "cuStreamSynchronize");
}

TEST(shareable_regions_survive_each_driver_failure)
{
	static const struct fault_subject subject = {open_it, allocate_it, clean};

	kind = SHAREABLE;
	FAULT_EVERY_CALL(&subject, "cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess",
			 "cuMemsetD8Async", "cuStreamSynchronize");
}

// ---- access ---------------------------------------------------------------------------------------------

static struct vg_vram_loan loan;

static enum vg_status open_and_allocate(void)
{
	enum vg_status status = open_it();

	return status ? status : allocate_it();
}

static enum vg_status use_it(void)
{
	char byte = 1;

	TRY(vg_vram_write_at(handle, 0, &byte, 1));
	TRY(vg_vram_read_at(handle, 0, &byte, 1));
	TRY(vg_vram_fill(handle, 0, 1, 5000));
	TRY(vg_vram_copy(handle, 0, handle, 2500, 2500));
	enum vg_status status = vg_vram_borrow(handle, VG_VRAM_READ_WRITE, &loan);
	return status ? status : vg_vram_give_back(&loan);
}

TEST(access_survives_each_driver_failure)
{
	static const struct fault_subject subject = {open_and_allocate, use_it, clean};

	kind = NULL;
	FAULT_EVERY_CALL(&subject, "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2_ptds", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async",
			 "cuStreamSynchronize");
}

static char *copy;

static enum vg_status allocate_much(void)
{
	enum vg_status status = open_it();

	copy = calloc(1, 5 << 20);
	return status ? status : vg_vram_allocate(vram, 5 << 20, NULL, &handle);
}

static enum vg_status read_much(void)
{
	return vg_vram_read_at(handle, 0, copy, 5 << 20);
}

static void clean_much(void)
{
	clean();
	free(copy);
}

TEST(long_reads_survive_each_driver_failure)
{
	static const struct fault_subject subject = {allocate_much, read_much, clean_much};

	FAULT_EVERY_CALL(&subject, "cuMemAllocHost_v2", "cuEventCreate", "cuMemcpyDtoHAsync_v2", "cuEventRecord",
			 "cuEventSynchronize");
}

// ---- closing ----------------------------------------------------------------------------------------------

static char heard[1024];

static void hear(void *user, enum vg_log_level level, const char *text)
{
	snprintf(heard, sizeof heard, "%s", text);
}

// Runs `run` in a child whose driver fails once. The fault hits a call after the region was allocated.
static void with_fault(void (*run)(void), const char *fault)
{
	in_child(run, "VIRGATE_SIM_FAULT", fault);
}

// Borrows a region after a write. The driver waits twice: for the zeroing of the new region, and for the write. If the
// second wait fails, there must be no loan.
static void lend_after_a_write(void)
{
	char byte = 1;

	OK(open_it());
	OK(allocate_it());
	OK(vg_vram_write_at(handle, 0, &byte, 1));
	REFUSED(vg_vram_borrow(handle, VG_VRAM_READ_WRITE, &loan), VG_DRIVER, "waiting for what was written");
	OK(vg_vram_free(handle));
	close_vram(vram);
}

static void write_while_lent(void)
{
	char byte = 1;

	OK(open_it());
	OK(allocate_it());
	OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan)); // this loan makes no driver call, since no write is pending
	REFUSED(vg_vram_write_at(handle, 0, &byte, 1), VG_DRIVER, "waiting for what was written");
	OK(vg_vram_give_back(&loan));
	OK(vg_vram_free(handle));
	close_vram(vram);
}

// Makes a long write. It waits for its stream itself, unlike a short write, so it reports the failure.
static void write_much(void)
{
	const size_t bytes = 1 << 20;
	char *data = calloc(1, bytes);

	OK(open_it());
	OK(vg_vram_allocate(vram, bytes, NULL, &handle));
	REFUSED(vg_vram_write_at(handle, 0, data, bytes), VG_DRIVER, "1048576 bytes at offset 0");
	OK(vg_vram_write_at(handle, 0, data, bytes));
	OK(vg_vram_free(handle));
	free(data);
	close_vram(vram);
}

static void write_what_was_offered(void)
{
	struct vg_share_offer *offer;
	char byte = 1;

	kind = SHAREABLE;
	OK(open_it());
	OK(allocate_it());
	OK(vg_share_offer_create(&offer));
	OK(vg_share_offer_add(offer, handle, NULL)); // this makes no driver call, since no write is pending
	REFUSED(vg_vram_write_at(handle, 0, &byte, 1), VG_DRIVER, "waiting for what was written");
	vg_share_offer_destroy(offer);
	OK(vg_vram_free(handle));
	close_vram(vram);
}

TEST(failed_waits_for_writes_are_reported)
{
	kind = NULL;
	with_fault(lend_after_a_write, "cuStreamSynchronize:2=CUDA_ERROR_OPERATING_SYSTEM");
	with_fault(write_much, "cuStreamSynchronize:2=CUDA_ERROR_OPERATING_SYSTEM");
	with_fault(write_what_was_offered, "cuStreamSynchronize:2=CUDA_ERROR_OPERATING_SYSTEM");
	with_fault(write_while_lent, "cuStreamSynchronize:2=CUDA_ERROR_OPERATING_SYSTEM");
}

// Frees a region whose zeroing fails. The handle must stay valid, and a second free must succeed.
static void free_again(void)
{
	struct vg_vram_capacity capacity;

	OK(open_it());
	OK(allocate_it());
	OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan));
	OK(vg_vram_give_back(&loan));
	REFUSED(vg_vram_free(handle), VG_DRIVER, "zeroing 5000 bytes");
	check_bytes(handle, 0, 5000, 0);
	OK(vg_vram_capacity(vram, &capacity));
	CHECK_INT(capacity.regions, 1);
	OK(vg_vram_free(handle));
	REFUSED(vg_vram_free(handle), VG_STALE, "names no region");
	close_vram(vram);
}

TEST(region_stays_if_zeroing_fails)
{
	kind = NULL;
	with_fault(free_again, "cuMemsetD8Async:2=CUDA_ERROR_OPERATING_SYSTEM");
	with_fault(free_again, "cuStreamSynchronize:2=CUDA_ERROR_OPERATING_SYSTEM");
	with_fault(free_again, "cuCtxSynchronize:1=CUDA_ERROR_OPERATING_SYSTEM");
}

// Frees a region, but the driver fails to free the memory. The call must fail, and the handle must be stale afterwards.
static void not_taken_back(void)
{
	OK(open_it());
	OK(allocate_it());
	REFUSED(vg_vram_free(handle), VG_DRIVER, "CUDA_ERROR_OPERATING_SYSTEM");
	REFUSED(vg_vram_free(handle), VG_STALE, "names no region");
	close_vram(vram);
}

TEST(handle_is_stale_if_the_driver_fails_to_free)
{
	kind = NULL;
	with_fault(not_taken_back, "cuMemFree_v2:1=CUDA_ERROR_OPERATING_SYSTEM");
	kind = GUARDED;
	with_fault(not_taken_back, "cuMemUnmap:1=CUDA_ERROR_OPERATING_SYSTEM");
}

// Closing a context frees every region, even one that cannot be zeroed, and reports each failure.
static void close_with_failures(void)
{
	struct vg_vram_report report;
	struct vg_vram_handle other;
	struct vg_device *device;
	size_t before, after;

	OK(vg_device_get(0, &device));
	OK(vg_device_memory_info(device, &before, NULL));
	OK(open_it());
	OK(allocate_it());
	OK(vg_vram_allocate(vram, 7, NULL, &other));
	vg_log_set(hear, NULL);
	CHECK_INT(vg_vram_close(vram, &report), VG_DRIVER);
	CHECK_CONTAINS(vg_last_error()->text, "CUDA_ERROR_OPERATING_SYSTEM");
	vg_log_set(NULL, NULL);
	CHECK_CONTAINS(heard, "closing a VRAM context: a region of 5000 bytes: cuMemsetD8");
	CHECK_INT(report.regions, 2);
	CHECK_INT(report.bytes, 5007);
	CHECK_INT(report.failures, 1);
	REFUSED(vg_vram_free(handle), VG_STALE, "names no region");
	REFUSED(vg_vram_free(other), VG_STALE, "names no region");
	vg_vram_destroy(vram);
	OK(vg_device_memory_info(device, &after, NULL));
	CHECK_INT(after, before);
}

TEST(close_frees_all_regions_despite_failures)
{
	kind = NULL;
	with_fault(close_with_failures, "cuMemsetD8Async:3=CUDA_ERROR_OPERATING_SYSTEM");
}
