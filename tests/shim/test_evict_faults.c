// Makes driver calls fail while memory moves.
#include <pthread.h>

#include "evictable_handles.h"

// Runs `body` with a limit and a swap that are larger than the device.
static void run_with(const char *fault, void (*body)(void))
{
	printf("# %s\n", fault);
	fflush(stdout);
	setenv("VIRGATE_SIM_FAULT", fault, 1);
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = GIB;
	TENANT(16 * GIB, 16 * MIB, body);
	unsetenv("VIRGATE_SIM_FAULT");
}

static void wait_until_the_device_lacks_room(void)
{
	for (int i = 0; i < 20000 && atomic_load(&slot->reason) != PAGER_DEVICE; i++)
		pause_ms(1);
	CHECK_INT(slot->reason, PAGER_DEVICE);
}

static void request_move_and_wait(bool out)
{
	request_move(out, 5000);
	wait_for_answer();
}

// ---- on the way in -----------------------------------------------------------------------------

static CUdeviceptr allocated, first, second;
static CUmemGenericAllocationHandle nowhere;

// Makes an allocation, a handle with two mappings, and a handle without a mapping. To copy the last one, the pager must
// map it temporarily (the window).
static void make_all_kinds(void)
{
	CUmemGenericAllocationHandle handle;

	start();
	CHECK_INT(cuMemAlloc_v2(&allocated, SIZE), CUDA_SUCCESS);
	handle = make(SIZE);
	first = map_anywhere(SIZE, handle);
	second = map_anywhere(SIZE, handle);
	nowhere = make(SIZE);
	fill(allocated, SIZE, 1);
	fill(first, SIZE, 2);
}

static void check_all_kinds(void)
{
	check_filled(allocated, SIZE, 1);
	check_filled(first, SIZE, 2);
	check_filled(second, SIZE, 2);
}

// Driver calls that fail in turn. Calls 1 to 3 of cuMemCreate and cuMemMap are those of make_all_kinds(). Call 4 of
// cuMemMap maps the window for the move to the host.
static const char *const steps_in[] = {
	"cuMemCreate:4",    "cuMemCreate:5",	"cuMemCreate:6",    "cuMemMap:5",
	"cuMemMap:6",	    "cuMemMap:7",	"cuMemMap:8",	    "cuMemSetAccess:5",
	"cuMemSetAccess:6", "cuMemSetAccess:7", "cuMemSetAccess:8", "cuMemAddressReserve:5",
};

static void no_room_body(void)
{
	size_t before;

	make_all_kinds();
	before = free_on_device();
	move_out(PAGER_OUT);
	request_move(false, 0);
	wait_until_the_device_lacks_room();
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_DONE);
	CHECK_INT(slot->host, 0);
	CHECK_INT(free_on_device(), before);
	check_all_kinds();
	move_out_and_in();
	check_all_kinds();
	CHECK_INT(cuMemRelease(nowhere), CUDA_SUCCESS);
}

TEST(memory_waits_in_the_host_if_the_device_has_no_room)
{
	char fault[96];

	for (size_t i = 0; i < sizeof steps_in / sizeof *steps_in; i++) {
		int n = atoi(strchr(steps_in[i], ':') + 1);
		// The call fails in five consecutive attempts.
		snprintf(fault, sizeof fault, "%s-%d=CUDA_ERROR_OUT_OF_MEMORY", steps_in[i], n + 5);
		run_with(fault, no_room_body);
	}
}

static void broken_body(void)
{
	CUcontext current;

	make_all_kinds();
	move_out(PAGER_OUT);
	request_move_and_wait(false);
	CHECK_INT(slot->state, PAGER_BROKEN);
	CHECK_INT(slot->reason, PAGER_DRIVER);
	CHECK(slot->row == CUDA_ERROR_UNKNOWN || slot->row == CUDA_ERROR_OUT_OF_MEMORY);
	request_move_and_wait(true);
	CHECK_INT(slot->state, PAGER_BROKEN); // the state is permanent
	CHECK_INT(cuCtxGetCurrent(&current), CUDA_SUCCESS);
	cuMemsetD8_v2(allocated, 0, 4); // this call may succeed or fail, but must return
	CHECK_INT(cuMemFree_v2(allocated), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(nowhere), CUDA_SUCCESS);
	CHECK_INT(slot->bytes, SIZE);
}

TEST(other_failures_of_a_resume_break_the_process)
{
	static const char *const copies[] = {
		"cuMemcpyHtoDAsync_v2:1=CUDA_ERROR_OUT_OF_MEMORY",
		"cuMemcpyHtoDAsync_v2:2=CUDA_ERROR_UNKNOWN",
		"cuMemcpyHtoDAsync_v2:3=CUDA_ERROR_UNKNOWN",
		"cuEventRecord:4=CUDA_ERROR_UNKNOWN",
		"cuEventSynchronize:4=CUDA_ERROR_UNKNOWN",
		"cuEventSynchronize:6=CUDA_ERROR_UNKNOWN",
		"cuStreamCreate:3=CUDA_ERROR_OUT_OF_MEMORY",
		// The release fails, too, so the pager cannot roll back.
		"cuMemMap:6=CUDA_ERROR_OUT_OF_MEMORY;cuMemRelease:4=CUDA_ERROR_UNKNOWN",
	};
	char fault[96];

	for (size_t i = 0; i < sizeof steps_in / sizeof *steps_in; i++) {
		snprintf(fault, sizeof fault, "%s=CUDA_ERROR_UNKNOWN", steps_in[i]);
		run_with(fault, broken_body);
	}
	for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
		run_with(copies[i], broken_body);
}

// Lets the move to the host succeed, which makes the context current five times. All later attempts to make it current
// fail.
static void lost_context_body(void)
{
	make_all_kinds();
	move_out(PAGER_OUT);
	request_move_and_wait(false);
	CHECK_INT(slot->state, PAGER_BROKEN);
	CHECK_INT(slot->reason, PAGER_DRIVER);
	CHECK_INT(slot->row, CUDA_ERROR_INVALID_CONTEXT);
	CHECK_INT(slot->host, slot->bytes);
}

TEST(resume_fails_without_a_context)
{
	run_with("cuCtxPushCurrent_v2:6+=CUDA_ERROR_INVALID_CONTEXT", lost_context_body);
}

static CUgreenCtx make_green(void)
{
	CUdevResource resource;
	CUdevResourceDesc descriptor;
	CUgreenCtx green;

	CHECK_INT(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
	CHECK_INT(cuDevResourceGenerateDesc(&descriptor, &resource, 1), CUDA_SUCCESS);
	CHECK_INT(cuGreenCtxCreate(&green, descriptor, 0, CU_GREEN_CTX_DEFAULT_STREAM), CUDA_SUCCESS);
	return green;
}

static void *destroy_green(void *green)
{
	CHECK_INT(cuGreenCtxDestroy(green), CUDA_SUCCESS);
	return NULL;
}

// Tests a program in which only a green context keeps the primary context alive.
static void green_body(void)
{
	CUmemGenericAllocationHandle handle;
	CUgreenCtx green;
	pthread_t thread;

	start();
	green = make_green();
	handle = make(SIZE);
	CHECK_INT(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	move_out(PAGER_OUT);
	CHECK_INT(pthread_create(&thread, NULL, destroy_green, green), 0);
	for (int i = 0; i < 20000 && slot->waiting == 0; i++)
		pause_ms(1);
	CHECK_INT(slot->waiting, 1);
	move_in(PAGER_RUNNING);
	CHECK_INT(slot->host, 0);
	CHECK_INT(pthread_join(thread, NULL), 0);
	request_move_and_wait(true); // no context is left in which the pager could copy
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_DRIVER);
	CHECK_INT(slot->row, CUDA_ERROR_INVALID_CONTEXT);
	CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST(green_contexts_stay_while_memory_is_away)
{
	run_with("", green_body);
}

// ---- on the way out ----------------------------------------------------------------------------

// When copy 6 fails, LEFT of the COUNT allocations are in the host already.
enum { COUNT = 8, LEFT = 3 };
static CUdeviceptr many[COUNT];

static void allocate_many(void)
{
	start();
	for (uint32_t i = 0; i < COUNT; i++) {
		CHECK_INT(cuMemAlloc_v2(&many[i], SIZE), CUDA_SUCCESS);
		fill(many[i], SIZE, i + 1);
	}
}

static void check_many(void)
{
	for (uint32_t i = 0; i < COUNT; i++)
		check_filled(many[i], SIZE, i + 1);
}

static void leave_partly(void)
{
	allocate_many();
	request_move(true, 5000);
	wait_until_the_device_lacks_room();
	CHECK_INT(slot->host, LEFT * SIZE);
	CHECK(slot->answered != slot->bell);
}

// Tests a second attempt to move the memory out, which succeeds.
static void leaves_later_body(void)
{
	leave_partly();
	CHECK_INT(slot->missing, LEFT * SIZE);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_OUT);
	CHECK_INT(slot->reason, PAGER_DONE);
	CHECK_INT(slot->host, COUNT * SIZE);
	CHECK_INT(slot->moves, 1);
	move_in(PAGER_RUNNING);
	check_many();
}

static void stays_later_body(void)
{
	leave_partly();
	CHECK_INT(slot->missing, LEFT * SIZE);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_DRIVER);
	CHECK_INT(slot->host, 0);
	check_many();
}

static void comes_later_body(void)
{
	leave_partly();
	request_move_and_wait(false);
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_DONE);
	CHECK_INT(slot->host, 0);
	check_many();
	fill(many[0], SIZE, 1);
}

TEST(memory_of_a_failed_move_waits_for_room)
{
	run_with("cuMemcpyDtoHAsync_v2:6=CUDA_ERROR_UNKNOWN;cuMemCreate:9=CUDA_ERROR_OUT_OF_MEMORY", leaves_later_body);
	run_with("cuMemcpyDtoHAsync_v2:6+=CUDA_ERROR_UNKNOWN;cuMemCreate:9-13=CUDA_ERROR_OUT_OF_MEMORY",
		 stays_later_body);
	run_with("cuMemcpyDtoHAsync_v2:6-9=CUDA_ERROR_UNKNOWN;cuMemMap:9-15=CUDA_ERROR_OUT_OF_MEMORY",
		 comes_later_body);
}

// Tests memory that the driver fails to release. It stays where it is, unmapped.
static void not_released_body(void)
{
	size_t before;

	allocate_many();
	before = free_on_device();
	request_move_and_wait(true);
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_DRIVER);
	CHECK_INT(slot->host, 0);
	CHECK_INT(free_on_device(), before);
	check_many();
	move_out_and_in();
	check_many();
}

TEST(memory_that_cannot_be_released_is_mapped_again)
{
	run_with("cuMemRelease:1=CUDA_ERROR_UNKNOWN", not_released_body);
	run_with("cuMemRelease:3=CUDA_ERROR_UNKNOWN", not_released_body);
	run_with("cuMemUnmap:2=CUDA_ERROR_UNKNOWN", not_released_body);
}

// ---- accounts ----------------------------------------------------------------------------------

// Checks that the slot, the ledger and the device agree, whether or not the SIZE bytes are allocated.
static void check_accounts(uint64_t charged, size_t free_bytes, size_t made)
{
	CHECK_INT(slot->bytes, made);
	CHECK_INT(slot->charged, made);
	CHECK_INT(vg_ledger_charged(tenant_ledger), charged + made);
	CHECK_INT(free_on_device(), free_bytes - made);
}

static void release_body(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	uint64_t charged;
	size_t free_bytes;

	start();
	charged = vg_ledger_charged(tenant_ledger);
	free_bytes = free_on_device();
	handle = make(SIZE);
	CHECK_INT(cuMemRelease(handle), CUDA_ERROR_UNKNOWN); // call 1 of cuMemRelease fails
	check_accounts(charged, free_bytes, SIZE);
	address = map_anywhere(SIZE, handle); // the memory still exists
	fill(address, SIZE, 1);
	CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
	// The unmap of the last mapping should release the memory. This second call of cuMemRelease fails, too.
	CHECK_INT(cuMemUnmap(address, SIZE), CUDA_ERROR_UNKNOWN);
	check_accounts(charged, free_bytes, SIZE);
	CHECK_INT(cuMemUnmap(address, SIZE), CUDA_SUCCESS);
	check_accounts(charged, free_bytes, 0);
	// The range has no mappings any more.
	CHECK_INT(cuMemUnmap(address, SIZE), CUDA_SUCCESS);
	CHECK_INT(cuMemAddressFree(address, SIZE), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
	move_out_and_in();
}

// Moves memory that the driver has failed to release. It moves with the other memory. The next attempt to release it
// succeeds.
static void release_and_move_body(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	uint64_t charged;
	size_t free_bytes;

	start();
	charged = vg_ledger_charged(tenant_ledger);
	free_bytes = free_on_device();
	handle = make(SIZE);
	address = map_anywhere(SIZE, handle);
	CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
	CHECK_INT(cuMemUnmap(address, SIZE), CUDA_ERROR_UNKNOWN);
	move_out_and_in();
	check_accounts(charged, free_bytes, SIZE);
	CHECK_INT(cuMemUnmap(address, SIZE), CUDA_SUCCESS);
	check_accounts(charged, free_bytes, 0);
}

static void free_body(void)
{
	CUdeviceptr address;
	uint64_t charged;
	size_t free_bytes;

	start();
	charged = vg_ledger_charged(tenant_ledger);
	free_bytes = free_on_device();
	CHECK_INT(cuMemAlloc_v2(&address, SIZE), CUDA_SUCCESS);
	CHECK_INT(cuMemFree_v2(address), CUDA_ERROR_UNKNOWN);
	check_accounts(charged, free_bytes, SIZE);
	move_out_and_in();
	CHECK_INT(cuMemFree_v2(address), CUDA_SUCCESS);
	check_accounts(charged, free_bytes, 0);
	CHECK_INT(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

TEST(memory_stays_charged_if_its_release_fails)
{
	run_with("cuMemRelease:1-2=CUDA_ERROR_UNKNOWN", release_body);
	run_with("cuMemRelease:1=CUDA_ERROR_UNKNOWN", release_and_move_body);
	run_with("cuMemRelease:1=CUDA_ERROR_UNKNOWN", free_body);
	run_with("cuMemUnmap:1=CUDA_ERROR_UNKNOWN", free_body);
}
