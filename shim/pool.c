// Hooks memory pools, and allocations in stream order.
#include "shim/graph_charge.h"
#include "shim/pool_charge.h"
#include "shim/reclaim.h"
#include "shim/shared.h"
#include "shim/undeclared.h"

// Each device's current pool. NULL: the pool is unknown, so the driver must be queried.
static CUmemoryPool current_pools[SHIM_DEVICES];

static CUmemoryPool find_current_pool(void)
{
	unsigned int device = shim_device();
	CUmemoryPool handle = __atomic_load_n(&current_pools[device], __ATOMIC_RELAXED);

	if (handle)
		return handle;
	SHIM_RELAXED;
	if (REAL(cuDeviceGetMemPool)(&handle, (CUdevice)device) == CUDA_SUCCESS)
		__atomic_store_n(&current_pools[device], handle, __ATOMIC_RELAXED);
	return handle;
}

static void forget_current_pools(void)
{
	for (unsigned int i = 0; i < SHIM_DEVICES; i++)
		__atomic_store_n(&current_pools[i], NULL, __ATOMIC_RELAXED);
}

static bool is_capturing(CUstream stream, bool per_thread)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult result = per_thread ? REAL(cuStreamIsCapturing_ptsz)(stream, &status)
				     : REAL(cuStreamIsCapturing)(stream, &status);

	return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

struct request {
	enum vg_entry entry;
	CUmemoryPool handle;
	size_t bytes;
	CUstream stream;
	bool is_per_thread;
};

// Charges the bytes by which a request may make the pool grow. If the limit has no room, the request still continues in
// two cases: the pool has enough unused memory, or the stream is being captured. A captured request is charged when its
// graph is instantiated.
static CUresult charge_growth(const struct request *request, uint64_t bytes, uint64_t *ret_growth)
{
	CUresult result;

	if (shim_counting())
		shim_undeclared_update(shim_session_ledger(), bytes);
	result = shim_charge_quietly(VG_LEDGER_POOL, bytes);
	*ret_growth = result == CUDA_SUCCESS ? bytes : 0;
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	if (is_capturing(request->stream, request->is_per_thread) ||
	    shim_pool_unused(request->handle) >= request->bytes)
		return CUDA_SUCCESS;
	result = shim_charge(request->entry, VG_LEDGER_POOL, bytes);
	*ret_growth = result == CUDA_SUCCESS ? bytes : 0;
	return result;
}

static CUresult undo_allocation(const struct request *request, CUdeviceptr address)
{
	if (request->is_per_thread)
		REAL(cuMemFreeAsync_ptsz)(address, request->stream);
	else
		REAL(cuMemFreeAsync)(address, request->stream);
	shim_needs_reconcile = true;
	return shim_refuse(request->entry, request->bytes);
}

// Sets the pool's charge after the driver call. Undoes the allocation if the limit has no room for the pool's growth,
// even after pools and graphs returned unused memory.
static CUresult finish_allocation(const struct request *request, struct shim_pool *pool, uint64_t growth,
				  CUresult result, CUdeviceptr address)
{
	struct shim_record record = {.key = address,
				     .bytes = request->bytes,
				     .data = pool,
				     .type = SHIM_POINTER,
				     .kind = VG_LEDGER_POOL,
				     .origin = SHIM_POOLED};
	uint64_t missing = shim_pool_end_growth(pool, growth, result == CUDA_SUCCESS ? request->bytes : 0);

	if (result != CUDA_SUCCESS)
		return result;
	if (missing && shim_reclaim())
		missing = shim_pool_end_growth(pool, 0, 0);
	if (!missing && shim_record_put(&record) == 0)
		return CUDA_SUCCESS;
	shim_pool_note_free(&record);
	return undo_allocation(request, address);
}

static CUresult allocate_from_pool(CUdeviceptr *dptr, const struct request *request,
				   CUresult (*real)(CUdeviceptr *, size_t, CUmemoryPool, CUstream))
{
	struct shim_pool *pool = shim_pool_find_counted(request->handle);
	uint64_t growth;
	CUresult result;

	if (!shim_may_have_graph_memory)
		// the stream may be in a capture, and the allocation then becomes a node of a graph
		shim_may_have_graph_memory = true;
	if (!pool)
		return real(dptr, request->bytes, request->handle, request->stream);
	SHIM_ON_DEVICE(shim_pool_device(pool));
	result = charge_growth(request, shim_round_granularity(request->bytes), &growth);
	if (result != CUDA_SUCCESS)
		return result;
	shim_pool_begin_growth(pool, growth);
	result = real(dptr, request->bytes, request->handle, request->stream);
	return finish_allocation(request, pool, growth, result, result == CUDA_SUCCESS ? *dptr : 0);
}

// Makes a call of cuMemAllocAsync. Has the parameters of cuMemAllocFromPoolAsync, so that both have the same type.
static CUresult allocate_from_current(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	return REAL(cuMemAllocAsync)(dptr, bytes, stream);
}

static CUresult allocate_from_current_ptsz(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	return REAL(cuMemAllocAsync_ptsz)(dptr, bytes, stream);
}

#define ALLOCATE(abi, handle, is_per_thread, real, ...)                                          \
	do {                                                                                     \
		if (!shim_enforcing())                                                           \
			return REAL(abi)(__VA_ARGS__, stream);                                   \
		struct request request = {VG_ENTRY_##abi, handle, bytes, stream, is_per_thread}; \
		return allocate_from_pool(dptr, &request, real);                                 \
	} while (0)

SHIM_EXPORT CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	ALLOCATE(cuMemAllocAsync, find_current_pool(), false, allocate_from_current, dptr, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	ALLOCATE(cuMemAllocAsync_ptsz, find_current_pool(), true, allocate_from_current_ptsz, dptr, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
						     CUstream stream)
{
	ALLOCATE(cuMemAllocFromPoolAsync, pool, false, REAL(cuMemAllocFromPoolAsync), dptr, bytes, pool);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
							  CUstream stream)
{
	ALLOCATE(cuMemAllocFromPoolAsync_ptsz, pool, true, REAL(cuMemAllocFromPoolAsync_ptsz), dptr, bytes, pool);
}

static bool is_host(CUmemLocationType type)
{
	return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

SHIM_EXPORT CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
	CUresult result = REAL(cuMemPoolCreate)(pool, properties);
	SHIM_ON_DEVICE(result == CUDA_SUCCESS && !is_host(properties->location.type) ? properties->location.id : -1);

	if (result == CUDA_SUCCESS && shim_counting())
		shim_pool_note(*pool, !is_host(properties->location.type));
	return result;
}

// Notes that a pool is in host memory. CUDA 13 returns such pools without a call that creates them.
static CUresult note_host_pool(CUresult result, CUmemoryPool *pool, const CUmemLocation *location)
{
	if (result == CUDA_SUCCESS && shim_counting() && is_host(location->type))
		shim_pool_note(*pool, false);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
						    CUmemAllocationType type)
{
	return note_host_pool(REAL(cuMemGetDefaultMemPool)(pool, location, type), pool, location);
}

SHIM_EXPORT CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	return note_host_pool(REAL(cuMemGetMemPool)(pool, location, type), pool, location);
}

SHIM_EXPORT CUresult CUDAAPI cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	CUresult result = REAL(cuDeviceSetMemPool)(device, pool);

	forget_current_pools();
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CUresult result = REAL(cuMemSetMemPool)(location, type, pool);

	forget_current_pools();
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool handle)
{
	struct shim_pool *pool = shim_counting() ? shim_pool_find_counted(handle) : NULL;
	CUresult result;

	if (!pool)
		return shim_pool_destroy_uncounted(handle);
	result = shim_pool_destroy(pool);
	forget_current_pools();
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
	CUresult result = REAL(cuMemPoolTrimTo)(handle, keep);

	if (result == CUDA_SUCCESS && shim_counting())
		shim_pools_reconcile();
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool,
							      CUmemAllocationHandleType type, unsigned long long flags)
{
	CUresult result = REAL(cuMemPoolExportToShareableHandle)(handle, pool, type, flags);

	if (result == CUDA_SUCCESS && shim_counting() && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		shim_pool_note_export(pool, *(int *)handle);
	return result;
}

// An imported pool counts as a shared allocation of all bytes that are charged for its owner's pool. The driver does
// not report how much of the pool this process opens.
SHIM_EXPORT CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle,
								CUmemAllocationHandleType type,
								unsigned long long flags)
{
	struct shim_physical *physical = NULL;
	CUresult result;

	if (shim_counting() && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		physical = shim_shared_join_descriptor(SHIM_KEY_POOL, (int)(intptr_t)handle);
	result = REAL(cuMemPoolImportFromShareableHandle)(pool, handle, type, flags);
	if (result == CUDA_SUCCESS && shim_counting())
		shim_pool_note_import(*pool, physical);
	else
		shim_physical_unref(physical);
	return result;
}
