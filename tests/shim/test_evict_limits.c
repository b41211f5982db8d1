// Tests memory of cuMemCreate in an evictable vGPU: refusals, memory that stays on the device, and failed moves.
#include <pthread.h>

#include "evictable_handles.h"

static void failures_body(void)
{
	CUmemGenericAllocationHandle handle = 1234;
	CUmemAllocationProp wrong = plain;
	uint64_t before;

	start();
	before = vg_ledger_charged(tenant_ledger);
	// The device has only 1 GiB.
	CHECK_INT(cuMemCreate(&handle, 900 << 20, &plain, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 0);
	// The size exceeds the vGPU's limit.
	CHECK_INT(cuMemCreate(&handle, 2 * GIB, &plain, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 1);
	CHECK_INT(cuMemCreate(&handle, BLOCK + 1, &plain, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemCreate(&handle, 4096, &plain, 0), CUDA_ERROR_INVALID_VALUE);
	// The size is no multiple of the granularity, so it is invalid whatever the limit.
	CHECK_INT(cuMemCreate(&handle, 2 * GIB + 1, &plain, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemCreate(&handle, (size_t)0 - 1, &plain, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemCreate(&handle, 0, &plain, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 1);
	CHECK_INT(cuMemCreate(&handle, BLOCK, &plain, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemCreate(NULL, BLOCK, &plain, 0), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemCreate(&handle, BLOCK, NULL, 0), CUDA_ERROR_INVALID_VALUE);
	wrong.location.id = 1;
	CHECK_INT(cuMemCreate(&handle, BLOCK, &wrong, 0), CUDA_ERROR_INVALID_DEVICE);
	CHECK_INT(handle, 1234);
	CHECK_INT(slot->bytes, 0);
	CHECK_INT(slot->charged, 0);
	CHECK_INT(vg_ledger_charged(tenant_ledger), before);
}

TEST(a_failed_creation_charges_nothing)
{
	setenv("VIRGATE_SIM_FAULT", "memory=800M", 1);
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = GIB;
	TENANT(GIB, 16 * MIB, failures_body);
	unsetenv("VIRGATE_SIM_FAULT");
}

// A context takes 16 MiB of the fixed part, which has 50 MiB.
static void fixed_body(void)
{
	CUmemAllocationProp tiles = plain, compressed = plain;
	CUmemGenericAllocationHandle handle, movable;
	CUdeviceptr address;

	tiles.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
	compressed.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
	start();
	movable = make(40 << 20);
	CHECK_INT(cuMemCreate(&handle, 30 << 20, &compressed, 0), CUDA_SUCCESS);
	CHECK_INT(slot->bytes, 40 << 20);
	CHECK_INT(slot->charged, 40 << 20);
	address = map_anywhere(30 << 20, handle);
	fill(address, SIZE, 10);
	move_out_and_in();
	CHECK_INT(cuMemCreate(&handle, 30 << 20, &tiles, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 1);
	check_filled(address, SIZE, 10);
	CHECK_INT(cuMemRelease(movable), CUDA_SUCCESS);
	CHECK_INT(slot->charged, 0);
}

TEST(memory_that_cannot_leave_is_limited_by_the_fixed_part)
{
	run_with_fixed_part(fixed_body);
}

static void exported_body(void)
{
	CUmemAllocationProp exportable = plain;
	CUmemGenericAllocationHandle handle, other, imported;
	CUdeviceptr address;
	int descriptor;
	uint64_t before;

	exportable.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	start();
	before = vg_ledger_charged(tenant_ledger);
	CHECK_INT(cuMemCreate(&handle, 20 << 20, &exportable, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemCreate(&other, 20 << 20, &exportable, 0), CUDA_SUCCESS);
	CHECK_INT(slot->bytes, 40 << 20);
	CHECK_INT(slot->charged, 40 << 20);
	address = map_anywhere(20 << 20, handle);
	fill(address, SIZE, 20);
	move_out_and_in();
	CHECK_INT(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		  CUDA_SUCCESS);
	CHECK_INT(slot->bytes, 20 << 20); // only the handle `other` can still move
	CHECK_INT(slot->charged, 20 << 20);
	CHECK_INT(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
						 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		  CUDA_SUCCESS);
	close(descriptor);
	CHECK_INT(vg_ledger_charged(tenant_ledger), before + (40 << 20));
	fill(map_anywhere(20 << 20, imported), SIZE, 21);
	move_out_and_in();
	// Both addresses have the same memory.
	check_filled(address, SIZE, 21);
	// The fixed part has no room for the memory of a second export.
	CHECK_INT(cuMemExportToShareableHandle(&descriptor, other, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		  CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 1);
	CHECK_INT(slot->bytes, 20 << 20);
	move_out_and_in();
}

TEST(exportable_memory_moves_until_it_is_exported)
{
	run_with_fixed_part(exported_body);
}

static void export_fails_body(void)
{
	CUmemAllocationProp exportable = plain;
	CUmemGenericAllocationHandle handle;
	int descriptor;

	exportable.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	start();
	CHECK_INT(cuMemCreate(&handle, 20 << 20, &exportable, 0), CUDA_SUCCESS);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(
			cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
			i < 1 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
		CHECK_INT(slot->bytes, i < 1 ? 20 << 20 : 0);
		CHECK_INT(slot->charged, i < 1 ? 20 << 20 : 0);
		move_out_and_in();
	}
	CHECK_INT(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		  CUDA_ERROR_UNKNOWN);
	CHECK_INT(slot->bytes, 0); // the first export has made the memory fixed, so none can move
	CHECK_INT(slot->charged, 0);
}

TEST(memory_moves_after_a_failed_export)
{
	setenv("VIRGATE_SIM_FAULT",
	       "cuMemExportToShareableHandle:1=CUDA_ERROR_UNKNOWN;"
	       "cuMemExportToShareableHandle:3=CUDA_ERROR_UNKNOWN",
	       1);
	run_with_fixed_part(export_fails_body);
	unsetenv("VIRGATE_SIM_FAULT");
}

// The simulated device has no multicast objects, so binding memory to one fails.
static void multicast_body(void)
{
	CUmemGenericAllocationHandle handle, other;
	CUdeviceptr address;

	// This variable names a file that lists calls of missing functions. The calls below are expected to fail, so
	// they must not be listed.
	unsetenv("VIRGATE_SIM_UNIMPLEMENTED");
	start();
	handle = make(20 << 20);
	address = map_anywhere(20 << 20, handle);
	other = make(40 << 20);
	fill(address, SIZE, 30);
	CHECK_INT(cuMulticastBindMem(1234, 0, handle, 0, 20 << 20, 0), CUDA_ERROR_NOT_SUPPORTED);
	CHECK_INT(cuMulticastBindAddr(1234, 0, address, 20 << 20, 0), CUDA_ERROR_NOT_SUPPORTED);
	// The memory exceeds the fixed part.
	CHECK_INT(cuMulticastBindMem(1234, 0, other, 0, 40 << 20, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 1);
	CHECK_INT(slot->bytes, 60 << 20);
	CHECK_INT(slot->charged, 60 << 20);
	move_out_and_in();
	check_filled(address, SIZE, 30);
	CHECK_INT(cuMemRelease(other), CUDA_SUCCESS);
	CHECK_INT(slot->charged, 20 << 20);
}

TEST(memory_moves_after_a_failed_binding)
{
	run_with_fixed_part(multicast_body);
}

// In a vGPU, no peer GPU can use the memory, and the driver does not let the host use device memory.
static void host_access_body(void)
{
	const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_HOST},
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address;

	start();
	address = map_anywhere(60 << 20, make(60 << 20));
	fill(address, 60 << 20, 31);
	CHECK_INT(cuMemSetAccess(address, 60 << 20, &access, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 0);
	CHECK_INT(slot->bytes, 60 << 20);
	CHECK_INT(slot->charged, 60 << 20);
	move_out_and_in();
	check_filled(address, 60 << 20, 31);
}

TEST(memory_moves_after_access_was_refused)
{
	run_with_fixed_part(host_access_body);
}

// Threads compete for the fixed part. A context takes 16 MiB of it.
enum { WISHERS = 2, ROUNDS = 60 };
static pthread_barrier_t barrier;
static _Atomic unsigned int granted, arrived;

static void *wish_fixed(void *unused)
{
	CUmemAllocationProp tiles = plain;
	CUmemGenericAllocationHandle handle, movable;

	tiles.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
	for (int i = 0; i < ROUNDS; i++) {
		// Wait in a loop, not at a barrier: the threads then start more nearly at the same time.
		for (arrived++; arrived < (unsigned int)(i + 1) * WISHERS;)
			;
		bool has = cuMemCreate(&handle, 20 << 20, &tiles, 0) == CUDA_SUCCESS;
		granted += has;
		pthread_barrier_wait(&barrier);
		if (granted > 1)
			FAIL("round %d granted %u times 20 MiB of 34 MiB", i, granted);
		if (granted == 0)
			FAIL("round %d granted nothing", i);
		pthread_barrier_wait(&barrier);
		granted -= has;
		if (has)
			CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
		movable = make(40 << 20); // this movable memory must not count as room in the fixed part
		CHECK_INT(cuMemRelease(movable), CUDA_SUCCESS);
	}
	return unused;
}

static void race_body(void)
{
	pthread_t threads[WISHERS];

	start();
	pthread_barrier_init(&barrier, NULL, WISHERS);
	for (int i = 0; i < WISHERS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, wish_fixed, NULL), 0);
	for (int i = 0; i < WISHERS; i++)
		CHECK_INT(pthread_join(threads[i], NULL), 0);
	CHECK_INT(slot->charged, 0);
}

TEST(threads_cannot_share_room_of_the_fixed_part)
{
	run_with_fixed_part(race_body);
}

static void sparse_body(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1024,
					 .Height = 1024,
					 .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					 .NumChannels = 1,
					 .Flags = CUDA_ARRAY3D_DEFERRED_MAPPING};
	CUarrayMapInfo map = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
			      .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
			      .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
			      .deviceBitMask = 1};

	start();
	CHECK_INT(cuArray3DCreate_v2(&map.resource.array, &shape), CUDA_SUCCESS);
	map.memHandle.memHandle = make(SIZE);
	// The memory is not from a tile pool.
	CHECK_INT(cuMemMapArrayAsync(&map, 1, stream), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemMapArrayAsync_ptsz(&map, 1, stream), CUDA_ERROR_INVALID_VALUE);
}

TEST(arrays_refuse_memory_that_can_leave)
{
	run_evictable(sparse_body);
}

// Tests memory of which only a part would fit on the device. It must return as a whole.
static void no_room_body(void)
{
	CUdeviceptr mapped, allocated;
	CUmemGenericAllocationHandle handle;
	pid_t other;

	start();
	CHECK_INT(cuMemAlloc_v2(&allocated, 40 << 20), CUDA_SUCCESS);
	fill(allocated, 40 << 20, 11);
	mapped = map_anywhere(40 << 20, make(40 << 20));
	fill(mapped, 40 << 20, 12);
	handle = make(80 << 20);
	CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
	handle = make(80 << 20);
	move_out(PAGER_OUT);
	other = occupy_device(free_on_device() - (100 << 20));
	request_move(false, 0);
	while (slot->reason != PAGER_DEVICE)
		pause_ms(1);
	CHECK_INT(slot->missing, 80 << 20);
	CHECK(free_on_device() <= 100 << 20);
	kill(other, SIGKILL);
	CHECK_INT(waitpid(other, NULL, 0), other);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	check_filled(allocated, 40 << 20, 11);
	check_filled(mapped, 40 << 20, 12);
}

TEST(memory_returns_as_a_whole_when_the_device_has_room)
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = GIB;
	TENANT(16 * GIB, 16 * MIB, no_room_body);
}

static void no_swap_body(void)
{
	CUdeviceptr address;

	start();
	address = map_anywhere(SIZE, make(SIZE));
	fill(address, SIZE, 13);
	make(SIZE + BLOCK);
	request_move(true, 5000);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_HOST);
	CHECK_INT(slot->missing, BLOCK);
	check_filled(address, SIZE, 13);
}

TEST(handles_beyond_the_swap_stay_on_the_device)
{
	tenant_flags = VG_LEDGER_EVICTABLE;
	tenant_swap = 2 * SIZE;
	TENANT(950 * MIB, 16 * MIB, no_swap_body);
}

// Makes a driver call fail in the middle of a move to the host. The memory that has left must return to the device.
static void half_way_body(void)
{
	CUdeviceptr first, second;
	CUmemGenericAllocationHandle handle;

	start();
	handle = make(SIZE);
	first = map_anywhere(SIZE, handle);
	second = map_anywhere(SIZE, handle);
	map_anywhere(SIZE, make(SIZE));
	make(SIZE);
	fill(first, SIZE, 14);
	request_move(true, 5000);
	wait_for_answer();
	CHECK_INT(slot->state, PAGER_RUNNING);
	CHECK_INT(slot->reason, PAGER_DRIVER);
	CHECK_INT(slot->host, 0);
	check_filled(first, SIZE, 14);
	check_filled(second, SIZE, 14);
	move_out_and_in();
	check_filled(second, SIZE, 14);
}

TEST(failed_moves_are_rolled_back)
{
	static const char *const faults[] = {
		"cuMemUnmap:1=CUDA_ERROR_UNKNOWN", // the first handle's mappings
		"cuMemUnmap:2=CUDA_ERROR_UNKNOWN",
		"cuMemUnmap:3=CUDA_ERROR_UNKNOWN",
		"cuMemUnmap:4=CUDA_ERROR_UNKNOWN", // the temporary mapping from which the pager copies (the window)
		"cuMemcpyDtoHAsync_v2:2=CUDA_ERROR_UNKNOWN",
		"cuMemcpyDtoHAsync_v2:3=CUDA_ERROR_UNKNOWN",
		"cuMemAddressReserve:4=CUDA_ERROR_OUT_OF_MEMORY",
		"cuEventRecord:1=CUDA_ERROR_UNKNOWN",
		"cuEventRecord:2=CUDA_ERROR_UNKNOWN",
		"cuEventSynchronize:1=CUDA_ERROR_UNKNOWN",
		"cuEventSynchronize:2=CUDA_ERROR_UNKNOWN",
		"cuMemGetAccess:2=CUDA_ERROR_UNKNOWN",
		"cuMemSetAccess:4=CUDA_ERROR_UNKNOWN",
	};

	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
		setenv("VIRGATE_SIM_FAULT", faults[i], 1);
		printf("# %s\n", faults[i]);
		fflush(stdout);
		run_evictable(half_way_body);
	}
	unsetenv("VIRGATE_SIM_FAULT");
}
