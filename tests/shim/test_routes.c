// Tests all calls that allocate device memory, on the simulated driver. They are refused exactly at the limit, and
// after the frees the charge is what it was before.
#include <sys/socket.h>

#include "tenant.h"

enum { OVERHEAD_MIB = 16 };
#define LIMIT (256 * MIB)
#define ROOM (LIMIT - OVERHEAD_MIB * MIB) // the most that a tenant with one context may allocate

static uint64_t baseline;
static CUcontext context;
static CUstream stream;

static uint64_t charged(void)
{
	return vg_ledger_charged(tenant_ledger);
}

static void begin(void)
{
	CHECK_INT(cuInit(0), CUDA_SUCCESS);
	CHECK_INT(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	CHECK_INT(cuCtxSetCurrent(context), CUDA_SUCCESS);
	CHECK_INT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	baseline = charged();
	CHECK_INT(baseline, OVERHEAD_MIB * MIB);
}

static void end(void)
{
	CHECK_INT(charged(), baseline);
	CHECK_INT(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
	CHECK_INT(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

// One way to allocate: take() allocates `bytes` and stores a handle, and give() frees the memory of that handle.
struct route {
	CUresult (*take)(uint64_t bytes, uint64_t *ret_handle);
	CUresult (*give)(uint64_t handle);
	uint64_t step; // the smallest request
};

static void fill(const struct route *route)
{
	uint64_t handles[512], extra;
	size_t count = 0;

	CHECK_INT(route->take(ROOM + route->step, &extra), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(charged(), baseline);
	for (int round = 0; round < 2; round++) {
		for (count = 0; count < ROOM / route->step; count++) {
			CHECK_INT(route->take(route->step, &handles[count]), CUDA_SUCCESS);
			CHECK(charged() <= LIMIT);
		}
		CHECK_INT(charged(), baseline + count * route->step);
		CHECK_INT(route->take(route->step, &extra), CUDA_ERROR_OUT_OF_MEMORY);
		CHECK_INT(route->take(1, &extra), CUDA_ERROR_OUT_OF_MEMORY);
		for (size_t i = 0; i < count; i++)
			CHECK_INT(route->give(handles[i]), CUDA_SUCCESS);
		CHECK_INT(charged(), baseline);
	}
	// All memory in one request.
	CHECK_INT(route->take(ROOM / route->step * route->step, &extra), CUDA_SUCCESS);
	CHECK_INT(route->give(extra), CUDA_SUCCESS);
}

#define ROUTE(name, step)                                                    \
	static void name##_body(void)                                        \
	{                                                                    \
		begin();                                                     \
		fill(&(const struct route){name##_take, name##_give, step}); \
		end();                                                       \
	}                                                                    \
	TEST(name)                                                           \
	{                                                                    \
		TENANT(LIMIT, OVERHEAD_MIB *MIB, name##_body);               \
		CHECK(vg_ledger_refusal_count(tenant_ledger) >= 3);          \
	}

static CUresult alloc_take(uint64_t bytes, uint64_t *ret_handle)
{
	return cuMemAlloc_v2((CUdeviceptr *)ret_handle, bytes);
}

static CUresult alloc_give(uint64_t handle)
{
	return cuMemFree_v2(handle);
}
ROUTE(alloc, 4 * MIB)

static CUresult small_take(uint64_t bytes, uint64_t *ret_handle)
{
	return cuMemAlloc_v2((CUdeviceptr *)ret_handle, bytes);
}
#define small_give alloc_give
ROUTE(small, 2 * MIB)

static CUresult pitch_take(uint64_t bytes, uint64_t *ret_handle)
{
	size_t pitch;

	return cuMemAllocPitch_v2((CUdeviceptr *)ret_handle, &pitch, 4096, (bytes + 4095) / 4096, 4);
}
#define pitch_give alloc_give
ROUTE(pitch, 4 * MIB)

static CUresult managed_take(uint64_t bytes, uint64_t *ret_handle)
{
	return cuMemAllocManaged((CUdeviceptr *)ret_handle, bytes, CU_MEM_ATTACH_GLOBAL);
}
#define managed_give alloc_give
ROUTE(managed, 4 * MIB)

static CUresult async_take(uint64_t bytes, uint64_t *ret_handle)
{
	return cuMemAllocAsync((CUdeviceptr *)ret_handle, bytes, stream);
}

static CUresult async_give(uint64_t handle)
{
	CUresult result = cuMemFreeAsync(handle, stream);

	return result == CUDA_SUCCESS ? cuStreamSynchronize(stream) : result;
}
ROUTE(async, 32 * MIB)

static CUmemAllocationProp on_device(void)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
}

static CUresult create_take(uint64_t bytes, uint64_t *ret_handle)
{
	CUmemAllocationProp properties = on_device();

	return cuMemCreate((CUmemGenericAllocationHandle *)ret_handle, (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB),
			   &properties, 0);
}

static CUresult create_give(uint64_t handle)
{
	return cuMemRelease(handle);
}
ROUTE(create, 4 * MIB)

// The address range of memory that was created, mapped and released. The mapping keeps the memory allocated.
static CUdeviceptr range;
static uint64_t range_used, sizes[4096];

static CUresult mapped_take(uint64_t bytes, uint64_t *ret_handle)
{
	CUmemAllocationProp properties = on_device();
	CUmemGenericAllocationHandle handle;
	CUresult result;

	bytes = (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
	if (!range)
		CHECK_INT(cuMemAddressReserve(&range, 4 * GIB, 0, 0, 0), CUDA_SUCCESS);
	result = cuMemCreate(&handle, bytes, &properties, 0);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_handle = range + range_used;
	sizes[range_used / (2 * MIB)] = bytes;
	range_used += bytes;
	CHECK_INT(cuMemMap(*ret_handle, bytes, 0, handle, 0), CUDA_SUCCESS);
	return cuMemRelease(handle);
}

static CUresult mapped_give(uint64_t handle)
{
	return cuMemUnmap(handle, sizes[(handle - range) / (2 * MIB)]);
}
ROUTE(mapped, 4 * MIB)

static CUresult array_take(uint64_t bytes, uint64_t *ret_handle)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {1024, (bytes + 1024 * 16 - 1) / (1024 * 16), 0, CU_AD_FORMAT_FLOAT, 4, 0};

	return cuArray3DCreate_v2((CUarray *)ret_handle, &shape);
}

static CUresult array_give(uint64_t handle)
{
	return cuArrayDestroy((CUarray)handle);
}
ROUTE(array, 4 * MIB)

// A mipmap with a base level of 8 MiB needs a third more for the smaller levels. The test does not check the exact
// charge of one mipmap. It checks how many fit.
static void mipmap_body(void)
{
	CUDA_ARRAY3D_DESCRIPTOR shape = {1024, 512, 0, CU_AD_FORMAT_FLOAT, 4, 0};
	CUmipmappedArray arrays[64], extra;
	uint64_t each, count = 0;

	begin();
	CHECK_INT(cuMipmappedArrayCreate(&arrays[0], &shape, 5), CUDA_SUCCESS);
	each = charged() - baseline;
	CHECK(each >= 10 * MIB && each <= 24 * MIB);
	for (count = 1; count < ROOM / each; count++)
		CHECK_INT(cuMipmappedArrayCreate(&arrays[count], &shape, 5), CUDA_SUCCESS);
	CHECK_INT(cuMipmappedArrayCreate(&extra, &shape, 5), CUDA_ERROR_OUT_OF_MEMORY);
	for (uint64_t i = 0; i < count; i++)
		CHECK_INT(cuMipmappedArrayDestroy(arrays[i]), CUDA_SUCCESS);
	end();
}

TEST(mipmapped_array)
{
	TENANT(LIMIT, OVERHEAD_MIB * MIB, mipmap_body);
}

// Instantiates a graph that allocates. The driver allocates the memory at the first launch, but the interposer refuses
// at the instantiation.
static CUresult graph_take(uint64_t bytes, uint64_t *ret_handle)
{
	CUDA_MEM_ALLOC_NODE_PARAMS wanted = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
							   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
					     .bytesize = bytes};
	CUgraphExec executable;
	CUgraphNode node, freeing;
	CUgraph graph;
	CUresult result;

	CHECK_INT(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
	result = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted);
	if (result == CUDA_SUCCESS)
		CHECK_INT(cuGraphAddMemFreeNode(&freeing, graph, &node, 1, wanted.dptr), CUDA_SUCCESS);
	if (result == CUDA_SUCCESS)
		result = cuGraphInstantiateWithFlags(&executable, graph, 0);
	CHECK_INT(cuGraphDestroy(graph), CUDA_SUCCESS);
	if (result != CUDA_SUCCESS)
		return result;
	CHECK_INT(cuGraphLaunch(executable, stream), CUDA_SUCCESS);
	CHECK_INT(cuStreamSynchronize(stream), CUDA_SUCCESS);
	*ret_handle = (uintptr_t)executable;
	return CUDA_SUCCESS;
}

static CUresult graph_give(uint64_t handle)
{
	CUresult result = cuGraphExecDestroy((CUgraphExec)handle);

	return result == CUDA_SUCCESS ? cuDeviceGraphMemTrim(0) : result;
}
ROUTE(graph, 32 * MIB)

static void pool_body(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	cuuint64_t keep_all = UINT64_MAX;
	CUdeviceptr blocks[8], extra;
	CUmemoryPool pool;

	begin();
	CHECK_INT(cuMemPoolCreate(&pool, &properties), CUDA_SUCCESS);
	CHECK_INT(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all), CUDA_SUCCESS);
	for (int i = 0; i < 7; i++)
		CHECK_INT(cuMemAllocFromPoolAsync(&blocks[i], 32 * MIB, pool, stream), CUDA_SUCCESS);
	CHECK_INT(charged(), baseline + 224 * MIB);
	CHECK_INT(cuMemAllocFromPoolAsync(&extra, 32 * MIB, pool, stream), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(cuMemAlloc_v2(&extra, 32 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < 7; i++)
		CHECK_INT(cuMemFreeAsync(blocks[i], stream), CUDA_SUCCESS);
	CHECK_INT(cuStreamSynchronize(stream), CUDA_SUCCESS);
	CHECK_INT(charged(), baseline + 224 * MIB); // the pool keeps the freed memory
	// Before a refusal, the interposer trims the pool.
	CHECK_INT(cuMemAlloc_v2(&extra, 200 * MIB), CUDA_SUCCESS);
	CHECK_INT(charged(), baseline + 200 * MIB);
	CHECK_INT(cuMemFree_v2(extra), CUDA_SUCCESS);
	CHECK_INT(cuMemPoolDestroy(pool), CUDA_SUCCESS);
	end();
}

TEST(pool)
{
	TENANT(LIMIT, OVERHEAD_MIB * MIB, pool_body);
}

// Memory is charged once, although the tenant exports, imports and maps it.
static void import_body(void)
{
	CUmemAllocationProp properties = on_device();
	CUmemGenericAllocationHandle made, imported;
	CUdeviceptr address;
	size_t left;
	int fd = -1;

	begin();
	CHECK_INT(cuMemCreate(&made, 64 * MIB, &properties, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemExportToShareableHandle(&fd, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(made), CUDA_SUCCESS);
	CHECK_INT(cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)fd,
						 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		  CUDA_SUCCESS);
	CHECK_INT(cuMemAddressReserve(&address, 64 * MIB, 0, 0, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemMap(address, 64 * MIB, 0, imported, 0), CUDA_SUCCESS);
	CHECK_INT(charged(), baseline + 64 * MIB);
	close(fd);
	// This call makes the interposer refund exported memory whose descriptors are closed.
	CHECK_INT(cuMemGetInfo_v2(&left, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), baseline + 64 * MIB);
	CHECK_INT(cuMemRelease(imported), CUDA_SUCCESS);
	CHECK_INT(charged(), baseline + 64 * MIB);
	CHECK_INT(cuMemUnmap(address, 64 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuMemAddressFree(address, 64 * MIB), CUDA_SUCCESS);
	end();
}

TEST(import)
{
	TENANT(LIMIT, OVERHEAD_MIB * MIB, import_body);
}

static int pair[2];

static int exported(uint64_t bytes)
{
	CUmemAllocationProp properties = on_device();
	CUmemGenericAllocationHandle made;
	int fd = -1;

	CHECK_INT(cuMemCreate(&made, bytes, &properties, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemExportToShareableHandle(&fd, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), CUDA_SUCCESS);
	CHECK_INT(cuMemRelease(made), CUDA_SUCCESS);
	return fd;
}

// A copy of a descriptor keeps the memory charged, whichever process has the copy. Here it is a forked child that does
// not use CUDA.
static void copies_body(void)
{
	size_t left;
	int first;
	char byte;

	begin();
	first = exported(64 * MIB);
	CHECK_INT(pipe(pair), 0);
	pid_t keeper = fork();
	if (keeper == 0) {
		close(pair[1]);
		_exit(read(pair[0], &byte, 1) != 0);
	}
	close(first);
	int other = exported(64 * MIB); // the descriptor probably has the number of `first`
	CHECK_INT(charged(), baseline + 128 * MIB);
	close(other);
	CHECK_INT(cuMemGetInfo_v2(&left, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), baseline + 64 * MIB);
	close(pair[1]);
	CHECK_CHILD(keeper);
	CHECK_INT(cuMemGetInfo_v2(&left, NULL), CUDA_SUCCESS);
	end();
}

TEST(copies_of_descriptors_keep_the_charge)
{
	TENANT(LIMIT, OVERHEAD_MIB * MIB, copies_body);
}

// Closes all descriptors, including the interposer's. Exported memory must stay charged.
static void close_all_body(void)
{
	size_t left;
	int copy;

	begin();
	copy = exported(64 * MIB);
	for (int fd = 3; fd < 1024; fd++)
		if (fd != copy)
			close(fd);
	CHECK_INT(cuMemGetInfo_v2(&left, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), baseline + 64 * MIB);
	close(copy);
	CHECK_INT(cuMemGetInfo_v2(&left, NULL), CUDA_SUCCESS);
	CHECK_INT(charged(), baseline + 64 * MIB);
}

TEST(exports_stay_charged_if_all_descriptors_are_closed)
{
	TENANT(LIMIT, OVERHEAD_MIB * MIB, close_all_body);
}

static CUresult make_green(CUgreenCtx *green)
{
	CUdevResource whole, part;
	CUdevResourceDesc description;
	unsigned int count = 1;

	CHECK_INT(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
	CHECK_INT(cuDevSmResourceSplitByCount(&part, &count, &whole, NULL, 0, 8), CUDA_SUCCESS);
	CHECK_INT(cuDevResourceGenerateDesc(&description, &part, 1), CUDA_SUCCESS);
	return cuGreenCtxCreate(green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM);
}

// Each green context keeps 4 MiB until the primary context is destroyed, even after the green context was destroyed.
static void green_body(void)
{
	CUdeviceptr address;
	CUgreenCtx green;
	unsigned int made = 0;

	begin();
	CHECK_INT(cuMemAlloc_v2(&address, ROOM - 18 * MIB), CUDA_SUCCESS);
	while (made < 100 && make_green(&green) == CUDA_SUCCESS) {
		CHECK_INT(cuGreenCtxDestroy(green), CUDA_SUCCESS);
		made++;
	}
	CHECK_INT(made, 4);
	CHECK_INT(charged(), LIMIT - 2 * MIB);
	CHECK_INT(cuMemFree_v2(address), CUDA_SUCCESS);
	CHECK_INT(charged(), baseline + 16 * MIB);
	CHECK_INT(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
	CHECK_INT(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
	CHECK_INT(charged(), 0);
}

TEST(green_contexts_are_charged_until_the_primary_context_ends)
{
	TENANT(LIMIT, OVERHEAD_MIB * MIB, green_body);
}

static void wrong_close_body(void)
{
	CUdeviceptr address;

	begin();
	CHECK_INT(cuMemAlloc_v2(&address, 8 * MIB), CUDA_SUCCESS);
	CHECK_INT(cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_VALUE);
	CHECK_INT(charged(), baseline + 8 * MIB);
	CHECK_INT(cuMemFree_v2(address), CUDA_SUCCESS);
	end();
}

TEST(closing_unopened_handles_changes_nothing)
{
	TENANT(LIMIT, OVERHEAD_MIB * MIB, wrong_close_body);
}

static void capture_body(void)
{
	CUdeviceptr address;
	CUgraphExec executable;
	CUgraph graph;

	begin();
	CHECK_INT(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
	// Allocations in a capture take no memory.
	CHECK_INT(cuMemAllocAsync(&address, 512 * MIB, stream), CUDA_SUCCESS);
	CHECK_INT(cuMemFreeAsync(address, stream), CUDA_SUCCESS);
	CHECK_INT(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	CHECK_INT(charged(), baseline);
	CHECK_INT(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_INT(cuGraphDestroy(graph), CUDA_SUCCESS);
	end();
}

TEST(captured_allocations_are_refused_at_instantiation)
{
	TENANT(LIMIT, OVERHEAD_MIB * MIB, capture_body);
}
