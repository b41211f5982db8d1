// Checks charges to the byte, and their refunds, with the fake driver.
#include "tenant.h"

#include "fake_driver.h"

static void (*fail_entry)(const char *);
static uint64_t (*used)(void);

static void start(void)
{
	void *fake = dlopen(getenv("VIRGATE_DRIVER"), RTLD_NOW);

	CHECK(fake);
	fail_entry = (void (*)(const char *))dlsym(fake, "fake_fail");
	used = (uint64_t(*)(void))dlsym(fake, "fake_used");
	CHECK(fail_entry && used);
	CHECK_INT(cuInit(0), CUDA_SUCCESS);
}

static uint64_t charged(void)
{
	return vg_ledger_charged(tenant_ledger);
}

static void alloc_body(void)
{
	CUdeviceptr blocks[64], extra;

	start();
	for (int i = 0; i < 64; i++)
		CHECK_INT(cuMemAlloc_v2(&blocks[i], 2 * MIB - 1), CUDA_SUCCESS);
	CHECK_INT(charged(), 128 * MIB); // the driver's granularity is 2 MiB
	CHECK_INT(cuMemAlloc_v2(&extra, 1), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(charged(), 128 * MIB);
	CHECK_INT(cuMemFree_v2(blocks[7]), CUDA_SUCCESS);
	CHECK_INT(charged(), 126 * MIB);
	CHECK_INT(cuMemAlloc_v2(&blocks[7], 2 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&extra, 1), CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < 64; i++)
		CHECK_INT(cuMemFree_v2(blocks[i]), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
	CHECK_INT(used(), 0);
}

TEST(alloc_is_refused_exactly_at_the_limit)
{
	TENANT(128 * MIB, 0, alloc_body);
	CHECK_INT(vg_ledger_refusal_count(tenant_ledger), 2);
}

static void small_body(void)
{
	CUdeviceptr small[64], large, first;

	start();
	// The fake driver returns consecutive addresses. This allocation takes a block of 2 MiB, so the small
	// allocations after it begin in the next block.
	CHECK_INT(cuMemAlloc_v2(&first, 2 * MIB), CUDA_SUCCESS);
	for (int i = 0; i < 64; i++)
		CHECK_INT(cuMemAlloc_v2(&small[i], 64 * 1024), CUDA_SUCCESS);
	CHECK_INT(charged(), 6 * MIB); // the 2 MiB of `first`, and two blocks of small allocations
	CHECK_INT(cuMemAlloc_v2(&large, 2 * MIB), CUDA_SUCCESS);
	// The fake driver never reuses addresses, so this allocation would begin another block. The limit of 8 MiB is
	// used up.
	CHECK_INT(cuMemAlloc_v2(&large, 1), CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < 64; i++)
		CHECK_INT(cuMemFree_v2(small[i]), CUDA_SUCCESS);
	CHECK_INT(charged(), 4 * MIB);
}

TEST(small_allocations_are_charged_by_their_blocks)
{
	TENANT(8 * MIB, 0, small_body);
}

static void failing_body(void)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address, kept;
	CUcontext context;
	size_t pitch;

	start();
	fail_entry("cuDevicePrimaryCtxRetain");
	CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_UNKNOWN);
	CHECK_INT(charged(), 0);
	fail_entry("cuMemAlloc_v2");
	CHECK_INT(cuMemAlloc_v2(&address, MIB), CUDA_ERROR_UNKNOWN);
	CHECK_INT(charged(), 0);
	fail_entry("cuMemAllocManaged");
	CHECK_INT(cuMemAllocManaged(&address, MIB, 1), CUDA_ERROR_UNKNOWN);
	CHECK_INT(charged(), 0);
	fail_entry("cuMemAllocPitch_v2");
	CHECK_INT(cuMemAllocPitch_v2(&address, &pitch, 100, 100, 4), CUDA_ERROR_UNKNOWN);
	CHECK_INT(charged(), 0);
	fail_entry("cuMemAllocFromPoolAsync");
	CHECK_INT(cuMemAllocAsync(&address, MIB, NULL), CUDA_ERROR_UNKNOWN);
	CHECK_INT(charged(), 0);
	fail_entry("cuMemCreate");
	CHECK_INT(cuMemCreate(&handle, 2 * MIB, &properties, 0), CUDA_ERROR_UNKNOWN);
	CHECK_INT(charged(), 0);
	fail_entry("cuMemFree_v2"); // memory that the driver failed to free stays charged
	CHECK_INT(cuMemAlloc_v2(&kept, 2 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemFree_v2(kept), CUDA_ERROR_UNKNOWN);
	CHECK_INT(charged(), 2 * MIB);
	fail_entry("cuMemMap");
	CHECK_INT(cuMemCreate(&handle, 2 * MIB, &properties, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemMap(0x100000000, 2 * MIB, 0, handle, 0), CUDA_ERROR_UNKNOWN);
	fail_entry("cuMemRelease");
	CHECK_INT(cuMemRelease(handle), CUDA_ERROR_UNKNOWN);
	CHECK_INT(charged(), 4 * MIB);
	fail_entry(NULL);
	CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
	CHECK_INT(cuMemFree_v2(kept), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(failed_calls_leave_no_charge)
{
	TENANT(GIB, 16 * MIB, failing_body);
}

static void pitch_body(void)
{
	CUdeviceptr address;
	size_t pitch;

	start();
	CHECK_INT(cuMemAllocPitch_v2(&address, &pitch, 5000, 1024, 4), CUDA_SUCCESS);
	CHECK_INT(pitch, 8192);
	CHECK_INT(charged(), 8 * MIB);
	CHECK_INT(cuMemFree_v2(address), CUDA_SUCCESS);
	// After the first allocation, 7 MiB are left. For the second one, the interposer estimates 5 MiB, so it calls
	// the driver. The driver's pitch makes it 8 MiB, so the interposer must refuse it.
	CHECK_INT(cuMemAlloc_v2(&address, 3 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemAllocPitch_v2(&address, &pitch, 5000, 1024, 4), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(charged(), 4 * MIB);
	CHECK_INT(used(), 3 * MIB);
	CHECK_INT(cuMemAllocPitch_v2(&address, &pitch, SIZE_MAX, SIZE_MAX, 4), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(pitched_memory_is_charged_by_the_drivers_pitch)
{
	TENANT(11 * MIB, 0, pitch_body);
}

static void pool_body(void)
{
	CUdeviceptr blocks[8], extra;
	CUmemoryPool pool;

	start();
	CHECK_INT(cuDeviceGetMemPool(&pool, 0), CUDA_SUCCESS);
	for (int i = 0; i < 8; i++)
		CHECK_INT(cuMemAllocAsync(&blocks[i], 4 * MIB, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 32 * MIB); // one chunk of the pool
	CHECK_INT(cuMemAllocAsync(&extra, 4 * MIB, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 64 * MIB);
	CHECK_INT(cuMemFreeAsync(extra, NULL), CUDA_SUCCESS);
	for (int i = 0; i < 8; i++)
		CHECK_INT(cuMemFreeAsync(blocks[i], NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 64 * MIB); // the pool keeps the freed memory
	// The interposer trims pools before it refuses an allocation.
	CHECK_INT(cuMemAlloc_v2(&extra, 96 * MIB), CUDA_SUCCESS);
	CHECK_INT(charged(), 96 * MIB);
	CHECK_INT(cuMemAllocAsync(&blocks[0], 2 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(cuMemAllocAsync(&blocks[0], 64 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(cuMemFree_v2(extra), CUDA_SUCCESS);
	CHECK_INT(cuMemAllocAsync(&blocks[0], 60 * MIB, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 64 * MIB);
	// cuMemFree may also free a pointer of a pool.
	CHECK_INT(cuMemFree_v2(blocks[0]), CUDA_SUCCESS);
	CHECK_INT(charged(), 64 * MIB);
	CHECK_INT(cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
	CHECK_INT(used(), 0);
}

TEST(pools_are_charged_what_they_reserve)
{
	TENANT(100 * MIB, 0, pool_body);
}

static void destroyed_pool_body(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUdeviceptr first, second;
	CUmemoryPool pool;

	start();
	CHECK_INT(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
	CHECK_INT(cuMemAllocFromPoolAsync(&first, MIB, pool, NULL), CUDA_SUCCESS);
	CHECK_INT(cuMemAllocFromPoolAsync(&second, MIB, pool, NULL), CUDA_SUCCESS);
	CHECK_INT(cuMemPoolDestroy(pool), CUDA_SUCCESS);
	CHECK_INT(charged(), 32 * MIB); // the memory stays charged until its last allocation is freed
	CHECK_INT(cuMemFree_v2(first), CUDA_SUCCESS);
	CHECK_INT(charged(), 32 * MIB);
	CHECK_INT(cuMemFree_v2(second), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
	properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
	CHECK_INT(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
	CHECK_INT(cuMemAllocFromPoolAsync(&first, MIB, pool, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 0); // the pool has host memory, which is not charged
}

TEST(destroyed_pools_stay_charged_while_used)
{
	TENANT(GIB, 0, destroyed_pool_body);
}

static CUdeviceptr last_of_pool;

static void free_last_of_pool(void)
{
	CHECK_INT(cuMemFree_v2(last_of_pool), CUDA_SUCCESS);
}

static void freed_meanwhile_body(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	void (*on_pool_destroy)(void (*call)(void));
	CUdeviceptr other;
	CUmemoryPool pool;

	start();
	on_pool_destroy =
		(void (*)(void (*)(void)))dlsym(dlopen(getenv("VIRGATE_DRIVER"), RTLD_NOW), "fake_on_pool_destroy");
	// This allocation is from another pool, which must stay charged.
	CHECK_INT(cuMemAllocAsync(&other, MIB, NULL), CUDA_SUCCESS);
	CHECK_INT(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
	CHECK_INT(cuMemAllocFromPoolAsync(&last_of_pool, MIB, pool, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 64 * MIB);
	on_pool_destroy(free_last_of_pool);
	CHECK_INT(cuMemPoolDestroy(pool), CUDA_SUCCESS);
	on_pool_destroy(NULL);
	CHECK_INT(charged(), 32 * MIB);
}

TEST(pools_emptied_during_their_destruction_are_refunded_once)
{
	TENANT(GIB, 0, freed_meanwhile_body);
}

static void vmm_body(void)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	const CUdeviceptr range = 0x500000000000;
	CUmemGenericAllocationHandle handles[3], host;

	start();
	for (int i = 0; i < 3; i++)
		CHECK_INT(cuMemCreate(&handles[i], 2 * MIB, &properties, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 6 * MIB);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(cuMemMap(range + (unsigned)i * 2 * MIB, 2 * MIB, 0, handles[i], 0), CUDA_SUCCESS);
		CHECK_INT(cuMemRelease(handles[i]), CUDA_SUCCESS);
	}
	CHECK_INT(charged(), 6 * MIB); // the mapping keeps the memory allocated
	// The interposer does not know handle 12345, so mapping it charges nothing.
	CHECK_INT(cuMemMap(range + 64 * MIB, 2 * MIB, 0, 12345, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemUnmap(range, 4 * MIB), CUDA_SUCCESS); // one call removes two mappings
	CHECK_INT(charged(), 2 * MIB);
	CHECK_INT(cuMemUnmap(range + 4 * MIB, 2 * MIB), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
	properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	CHECK_INT(cuMemCreate(&host, 512 * MIB, &properties, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
	properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	CHECK_INT(cuMemCreate(&handles[0], 66 * MIB, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(cuMemCreate(&handles[0], 64 * MIB, &properties, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemCreate(&handles[1], 2 * MIB, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(cuMemRelease(handles[0]), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(physical_memory_is_charged_until_its_last_reference)
{
	TENANT(64 * MIB, 0, vmm_body);
}

static void context_body(void)
{
	CUcontext context;
	CUdeviceptr address;

	start();
	CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 40 * MIB);
	CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 40 * MIB);
	cuCtxSetCurrent(context);
	CHECK_INT(cuMemAlloc_v2(&address, 2 * MIB), CUDA_SUCCESS);
	CHECK_INT(vg_ledger_overhead(tenant_ledger), 40 * MIB);
	CHECK_INT(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	CHECK_INT(charged(), 42 * MIB);
	// Releasing the context refunds all that was allocated in it.
	CHECK_INT(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

static void no_room_for_a_context_body(void)
{
	CUcontext context;

	start();
	CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(contexts_are_charged_as_overhead)
{
	TENANT(64 * MIB, 40 * MIB, context_body);
	TENANT(32 * MIB, 40 * MIB, no_room_for_a_context_body);
}

static void views_body(void)
{
	CUdeviceptr address;
	size_t free_bytes, total;

	start();
	CHECK_INT(cuMemAlloc_v2(&address, 24 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
	CHECK_INT(free_bytes, 76 * MIB);
	CHECK_INT(total, 100 * MIB);
	CHECK_INT(cuMemGetInfo_v2(NULL, &total), CUDA_SUCCESS);
	CHECK_INT(cuMemGetInfo_v2(&free_bytes, NULL), CUDA_SUCCESS);
	CHECK_INT(cuDeviceTotalMem_v2(&total, 0), CUDA_SUCCESS);
	CHECK_INT(total, 100 * MIB);
}

TEST(queries_show_the_size_of_the_vgpu)
{
	TENANT(100 * MIB, 0, views_body);
}

static void resize_body(void)
{
	CUdeviceptr address, second;

	start();
	CHECK_INT(cuMemAlloc_v2(&address, 10 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&second, 10 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	uint64_t now;
	CHECK_INT(vg_ledger_set_limit(tenant_ledger, 20 * MIB, &now), 0);
	CHECK_INT(cuMemAlloc_v2(&second, 10 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemFree_v2(second), CUDA_SUCCESS);
	CHECK_INT(vg_ledger_set_limit(tenant_ledger, 10 * MIB, &now), 0);
	CHECK_INT(cuMemAlloc_v2(&second, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST(changed_limits_apply_at_once)
{
	TENANT(16 * MIB, 0, resize_body);
}

static void free_body(void)
{
	CUdeviceptr address;

	start();
	CHECK_INT(cuMemAlloc_v2(&address, 64 * MIB), CUDA_SUCCESS);
	// The interposer passes unknown pointers on to the driver.
	CHECK_INT(cuMemFree_v2(0x1234), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemFreeAsync(0x1234, NULL), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(calls_pass_through_without_a_vgpu)
{
	unsetenv("VIRGATE_LEDGER");
	CHECK_INT(tenant_run(free_body), 0);
}

static void broken_body(void)
{
	CUdeviceptr address;

	CHECK_INT(cuInit(0), CUDA_ERROR_SYSTEM_NOT_READY);
	CHECK_INT(cuMemAlloc_v2(&address, MIB), CUDA_ERROR_SYSTEM_NOT_READY);
}

TEST(unusable_ledgers_make_cuda_unavailable)
{
	setenv("VIRGATE_LEDGER", "/nonexistent/ledger", 1);
	CHECK_INT(tenant_run(broken_body), 0);
}

// Adds records to the interposer's table and removes them, at random.
static void churn_body(void)
{
	enum { BLOCKS = 700, STEPS = 100000 };
	CUdeviceptr blocks[BLOCKS] = {0};
	uint64_t random = 1, live = 0;

	start();
	for (int step = 0; step < STEPS; step++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		CUdeviceptr *block = &blocks[(random >> 33) % BLOCKS];
		if (*block) {
			CHECK_INT(cuMemFree_v2(*block), CUDA_SUCCESS);
			*block = 0;
			live--;
		} else {
			CHECK_INT(cuMemAlloc_v2(block, 2 * MIB), CUDA_SUCCESS);
			live++;
		}
		if (step % 1000 == 0)
			CHECK_INT(charged(), live * 2 * MIB);
	}
	for (int i = 0; i < BLOCKS; i++)
		if (blocks[i])
			CHECK_INT(cuMemFree_v2(blocks[i]), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(records_survive_random_allocations_and_frees)
{
	TENANT(4 * GIB, 0, churn_body);
}

static CUresult dma_buf(int *ret_fd, CUdeviceptr address, size_t bytes)
{
	return cuMemGetHandleForAddressRange(ret_fd, address, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

// Exports a part of an allocation as a dma-buf, which keeps the whole allocation. It must not be charged a second time.
static void dma_buf_body(void)
{
	CUmemAllocationProp properties = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	const CUdeviceptr range = 0x600000000000ull; // any address will do, since the fake driver maps nothing
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	size_t left;
	int fd = -1, copy;

	start();
	CHECK_INT(cuMemAlloc_v2(&address, 8 * MIB), CUDA_SUCCESS);
	fail_entry("cuMemGetHandleForAddressRange");
	CHECK_INT(dma_buf(&fd, address, 2 * MIB), CUDA_ERROR_UNKNOWN);
	fail_entry(NULL);
	CHECK_INT(charged(), 8 * MIB);
	CHECK_INT(dma_buf(&fd, address, 2 * MIB), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB);
	copy = dup(fd);
	CHECK_INT(cuMemFree_v2(address), CUDA_SUCCESS);
	close(fd);
	CHECK_INT(cuMemGetInfo_v2(&left, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB);
	close(copy);
	// before a refusal, the interposer refunds closed descriptors
	CHECK_INT(cuMemCreate(&handle, 10 * MIB, &properties, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), 10 * MIB);
	CHECK_INT(cuMemMap(range, 10 * MIB, 0, handle, 0), CUDA_SUCCESS);
	CHECK_INT(dma_buf(&fd, range + 2 * MIB, 8 * MIB), CUDA_SUCCESS);
	CHECK_INT(dma_buf(&copy, range, 10 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemUnmap(range, 10 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(handle), CUDA_SUCCESS);
	close(copy);
	CHECK_INT(cuMemGetInfo_v2(&left, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 10 * MIB);
	close(fd);
	CHECK_INT(cuMemGetInfo_v2(&left, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
	CHECK_INT(cuMemAlloc_v2(&address, 4 * MIB), CUDA_SUCCESS);
	CHECK_INT(dma_buf(&fd, address, 4 * MIB), CUDA_SUCCESS);
	close(fd);
	CHECK_INT(cuMemFree_v2(address), CUDA_SUCCESS);
	CHECK_INT(cuMemGetInfo_v2(&left, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

// Exports small allocations as dma-bufs. Each keeps the block that contains the allocation. Several dma-bufs of a block
// must be charged once.
static void small_dma_buf_body(void)
{
	CUdeviceptr address, other;
	size_t left;
	int fd = -1, second = -1;

	start();
	CHECK_INT(cuMemAlloc_v2(&address, 4096), CUDA_SUCCESS);
	CHECK_INT(dma_buf(&fd, address, 4096), CUDA_SUCCESS);
	CHECK_INT(charged(), 2 * MIB);
	CHECK_INT(cuMemAlloc_v2(&other, 8 * MIB), CUDA_SUCCESS);
	CHECK_INT(dma_buf(&second, address, 4096), CUDA_SUCCESS);
	CHECK_INT(charged(), 10 * MIB);
	CHECK_INT(cuMemFree_v2(address), CUDA_SUCCESS);
	close(second);
	CHECK_INT(cuMemGetInfo_v2(&left, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 10 * MIB);
	close(fd);
	CHECK_INT(cuMemGetInfo_v2(&left, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), 8 * MIB);
}

TEST(dma_bufs_keep_memory_charged_while_open)
{
	TENANT(10 * MIB, 0, dma_buf_body);
	TENANT(10 * MIB, 0, small_dma_buf_body);
}
