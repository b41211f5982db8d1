// A pool grows inside the call and shrinks at synchronisation, in steps of its own. So the
// rounded request is reserved first, and after the call the charge is set to what the driver
// says the pool has reserved.
#include <pthread.h>
#include <stdlib.h>

#include "ledger/share.h"
#include "shim/graph.h"
#include "shim/pool.h"
#include "shim/reclaim.h"
#include "shim/share.h"
#include "shim/undeclared.h"

struct pool {
	CUmemoryPool handle;
	uint64_t charged; // what the ledger has for it
	uint64_t live;	  // bytes of its allocations that were not freed yet
	uint64_t held;	  // reserved by calls on their way, for the growth they may cause
	bool counted;	  // on the device, and ours: neither in host memory nor imported
	bool destroyed;	  // the driver keeps it until its last allocation has been freed
	uint32_t share;	  // it was exported: what it ever had reserved stays on the device (docs/hardware.md)
	uint64_t mark;	  // that its descriptors carry
	struct shim_physical *import; // imported from an owner whose share this is
	unsigned int imports; // how often: the driver has it once, and destroys it as often
	struct pool *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools;
static CUmemoryPool current_pool; // of the device, NULL: to be asked for

static struct pool *find_or_add(CUmemoryPool handle, bool counted)
{
	struct pool *pool;

	for (pool = pools; pool; pool = pool->next)
		if (pool->handle == handle && !pool->destroyed)
			return pool;
	pool = calloc(1, sizeof *pool);
	if (!pool)
		return NULL;
	pool->handle = handle;
	pool->counted = counted;
	pool->next = pools;
	pools = pool;
	return pool;
}

static void remember(CUmemoryPool handle, bool counted)
{
	pthread_mutex_lock(&lock);
	struct pool *pool = find_or_add(handle, counted);
	if (pool)
		pool->counted = counted;
	pthread_mutex_unlock(&lock);
}

static uint64_t attribute(CUmemoryPool handle, CUmemPool_attribute which, uint64_t otherwise)
{
	SHIM_RELAXED;
	cuuint64_t value = 0;

	return REAL(cuMemPoolGetAttribute)(handle, which, &value) == CUDA_SUCCESS ? value : otherwise;
}

static uint64_t reserved_by(const struct pool *pool)
{
	uint64_t reserved = attribute(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, pool->charged);

	return pool->share && reserved < pool->charged ? pool->charged : reserved;
}

// Sets the pool's charge to its real size; `held` is what the caller has reserved for its
// growth, and the rest of it is refunded. Growth that other calls on their way have reserved
// for is left to them. Returns the bytes that the quota has no room for.
static uint64_t settle_charge(struct pool *pool, uint64_t held)
{
	uint64_t reserved = reserved_by(pool);
	uint64_t grown = reserved > pool->charged ? reserved - pool->charged : 0;
	uint64_t others = __atomic_sub_fetch(&pool->held, held, __ATOMIC_RELAXED);
	uint64_t used = grown < held ? grown : held;

	if (reserved < pool->charged) {
		shim_refund(VG_LEDGER_POOL, pool->charged - reserved);
		pool->charged = reserved;
	}
	pool->charged += used;
	grown -= used;
	shim_refund(VG_LEDGER_POOL, held - used);
	if (grown <= others)
		return 0;
	if (shim_charge_quietly(VG_LEDGER_POOL, grown - others) != CUDA_SUCCESS)
		return grown - others;
	pool->charged += grown - others;
	return 0;
}

static uint64_t settle(struct pool *pool, uint64_t held)
{
	uint64_t before = pool->charged, missing = settle_charge(pool, held);

	if (pool->share && pool->charged != before)
		vg_ledger_share_resize(shim_session_ledger(), pool->share, pool->charged);
	return missing;
}

void shim_pools_settle(void)
{
	pthread_mutex_lock(&lock);
	for (struct pool *pool = pools; pool; pool = pool->next)
		if (pool->counted && !pool->destroyed)
			settle(pool, 0);
	pthread_mutex_unlock(&lock);
}

void shim_pools_trim(void)
{
	pthread_mutex_lock(&lock);
	for (struct pool *pool = pools; pool; pool = pool->next)
		if (pool->counted && !pool->destroyed && pool->charged)
			REAL(cuMemPoolTrimTo)(pool->handle, 0);
	pthread_mutex_unlock(&lock);
}

static void unlink_pool(struct pool *gone)
{
	for (struct pool **link = &pools; *link; link = &(*link)->next) {
		if (*link == gone) {
			*link = gone->next;
			free(gone);
			return;
		}
	}
}

// It is no more: what is left to refund of its charge, which others may hold on to.
static uint64_t end(struct pool *pool)
{
	uint64_t charged = pool->charged, passed = 0;

	if (pool->share)
		vg_ledger_share_leave(shim_session_ledger(), pool->share, VG_LEDGER_POOL, charged, &passed);
	unlink_pool(pool);
	return charged - passed;
}

void shim_pool_freed(struct shim_record *record)
{
	struct pool *pool = record->data;
	uint64_t left = 0;

	pthread_mutex_lock(&lock);
	pool->live -= record->bytes;
	if (pool->destroyed && pool->live == 0)
		left = end(pool);
	pthread_mutex_unlock(&lock);
	record->bytes = left;
	shim_dirty = true;
}

// The pool that cuMemAllocAsync uses: a vGPU has one device, which is device 0 here.
static CUmemoryPool current(void)
{
	CUmemoryPool handle = __atomic_load_n(&current_pool, __ATOMIC_RELAXED);

	if (handle)
		return handle;
	SHIM_RELAXED;
	if (REAL(cuDeviceGetMemPool)(&handle, 0) == CUDA_SUCCESS)
		__atomic_store_n(&current_pool, handle, __ATOMIC_RELAXED);
	return handle;
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
	bool per_thread;
};

// Reserves for a request that may make the pool grow. With no room left, what the pool
// already has may still do; what a capture asks for is charged when its graph is instantiated.
static CUresult reserve(const struct request *request, uint64_t bytes, uint64_t *ret_held)
{
	CUresult result;
	uint64_t reserved, used;

	if (shim_counting())
		shim_undeclared_follow(shim_session_ledger(), bytes);
	result = shim_charge_quietly(VG_LEDGER_POOL, bytes);
	*ret_held = result == CUDA_SUCCESS ? bytes : 0;
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	if (is_capturing(request->stream, request->per_thread))
		return CUDA_SUCCESS;
	reserved = attribute(request->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 0);
	used = attribute(request->handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, reserved);
	if (reserved - used >= request->bytes && reserved >= used)
		return CUDA_SUCCESS;
	result = shim_charge(request->entry, VG_LEDGER_POOL, bytes);
	*ret_held = result == CUDA_SUCCESS ? bytes : 0;
	return result;
}

static struct pool *counted_pool(CUmemoryPool handle)
{
	pthread_mutex_lock(&lock);
	struct pool *pool = handle ? find_or_add(handle, true) : NULL;
	if (pool && !pool->counted)
		pool = NULL;
	pthread_mutex_unlock(&lock);
	return pool;
}

static CUresult undo(const struct request *request, CUdeviceptr address)
{
	if (request->per_thread)
		REAL(cuMemFreeAsync_ptsz)(address, request->stream);
	else
		REAL(cuMemFreeAsync)(address, request->stream);
	shim_dirty = true;
	return shim_refuse(request->entry, request->bytes);
}

// After the call: the charge follows the pool; an allocation for whose growth there is no
// room, even after others have given back, is undone.
static CUresult finish(const struct request *request, struct pool *pool, uint64_t held, CUresult result,
		       CUdeviceptr address)
{
	struct shim_record record = {
		.key = address, .bytes = request->bytes, .data = pool, .what = SHIM_POINTER, .kind = VG_LEDGER_POOL,
		.origin = SHIM_POOLED};
	uint64_t missing;

	pthread_mutex_lock(&lock);
	missing = settle(pool, held);
	if (result == CUDA_SUCCESS)
		pool->live += request->bytes;
	pthread_mutex_unlock(&lock);
	if (result != CUDA_SUCCESS)
		return result;
	if (missing && shim_reclaim()) {
		pthread_mutex_lock(&lock);
		missing = settle(pool, 0);
		pthread_mutex_unlock(&lock);
	}
	if (missing || shim_record_put(&record) != 0) {
		shim_pool_freed(&record);
		return undo(request, address);
	}
	return CUDA_SUCCESS;
}

static CUresult alloc_from(CUdeviceptr *dptr, const struct request *request,
			   CUresult (*real)(CUdeviceptr *, size_t, CUmemoryPool, CUstream))
{
	struct pool *pool = counted_pool(request->handle);
	uint64_t held;
	CUresult result;

	if (!shim_graph_memory)
		shim_graph_memory = true; // the stream may be capturing
	if (!pool)
		return real(dptr, request->bytes, request->handle, request->stream);
	result = reserve(request, shim_round_granularity(request->bytes), &held);
	if (result != CUDA_SUCCESS)
		return result;
	__atomic_fetch_add(&pool->held, held, __ATOMIC_RELAXED);
	result = real(dptr, request->bytes, request->handle, request->stream);
	return finish(request, pool, held, result, result == CUDA_SUCCESS ? *dptr : 0);
}

// cuMemAllocAsync in the shape of cuMemAllocFromPoolAsync.
static CUresult from_current(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	return REAL(cuMemAllocAsync)(dptr, bytes, stream);
}

static CUresult from_current_ptsz(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	return REAL(cuMemAllocAsync_ptsz)(dptr, bytes, stream);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	if (!shim_enforcing())
		return REAL(cuMemAllocAsync)(dptr, bytes, stream);
	struct request request = {VG_ENTRY_cuMemAllocAsync, current(), bytes, stream, false};
	return alloc_from(dptr, &request, from_current);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUstream stream)
{
	if (!shim_enforcing())
		return REAL(cuMemAllocAsync_ptsz)(dptr, bytes, stream);
	struct request request = {VG_ENTRY_cuMemAllocAsync_ptsz, current(), bytes, stream, true};
	return alloc_from(dptr, &request, from_current_ptsz);
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
						     CUstream stream)
{
	if (!shim_enforcing())
		return REAL(cuMemAllocFromPoolAsync)(dptr, bytes, pool, stream);
	struct request request = {VG_ENTRY_cuMemAllocFromPoolAsync, pool, bytes, stream, false};
	return alloc_from(dptr, &request, REAL(cuMemAllocFromPoolAsync));
}

SHIM_EXPORT CUresult CUDAAPI cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
							  CUstream stream)
{
	if (!shim_enforcing())
		return REAL(cuMemAllocFromPoolAsync_ptsz)(dptr, bytes, pool, stream);
	struct request request = {VG_ENTRY_cuMemAllocFromPoolAsync_ptsz, pool, bytes, stream, true};
	return alloc_from(dptr, &request, REAL(cuMemAllocFromPoolAsync_ptsz));
}

static bool is_host(CUmemLocationType type)
{
	return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

SHIM_EXPORT CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
	CUresult result = REAL(cuMemPoolCreate)(pool, properties);

	if (result == CUDA_SUCCESS && shim_counting())
		remember(*pool, !is_host(properties->location.type));
	return result;
}

// The pools of host memory that CUDA 13 hands out without a create.
static CUresult remember_location(CUresult result, CUmemoryPool *pool, const CUmemLocation *location)
{
	if (result == CUDA_SUCCESS && shim_counting() && is_host(location->type))
		remember(*pool, false);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
						    CUmemAllocationType type)
{
	return remember_location(REAL(cuMemGetDefaultMemPool)(pool, location, type), pool, location);
}

SHIM_EXPORT CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	return remember_location(REAL(cuMemGetMemPool)(pool, location, type), pool, location);
}

static void forget_current(void)
{
	__atomic_store_n(&current_pool, NULL, __ATOMIC_RELAXED);
}

SHIM_EXPORT CUresult CUDAAPI cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	CUresult result = REAL(cuDeviceSetMemPool)(device, pool);

	forget_current();
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CUresult result = REAL(cuMemSetMemPool)(location, type, pool);

	forget_current();
	return result;
}

void shim_pool_exported(CUmemoryPool handle, int descriptor)
{
	struct pool *pool = counted_pool(handle);
	struct vg_ledger *ledger = shim_session_ledger();

	if (!pool)
		return;
	pthread_mutex_lock(&lock);
	if (!pool->share && vg_ledger_share_make(ledger, shim_round_granularity(pool->charged + 1), &pool->share) == 0)
		vg_ledger_share_resize(ledger, pool->share, pool->charged);
	if (pool->share)
		pool->mark = shim_mark_put(descriptor, pool->mark);
	if (pool->mark)
		vg_ledger_share_name(ledger, pool->share, vg_ledger_key(SHIM_KEY_POOL, &pool->mark, sizeof pool->mark),
				     true);
	pthread_mutex_unlock(&lock);
}

void shim_pool_imported(CUmemoryPool handle, struct shim_physical *physical)
{
	pthread_mutex_lock(&lock);
	struct pool *pool = find_or_add(handle, false);
	if (pool) {
		pool->counted = false;
		pool->imports++;
		if (!pool->import) {
			pool->import = physical;
			physical = NULL;
		}
	}
	pthread_mutex_unlock(&lock);
	if (physical)
		shim_physical_drop(physical);
}

struct shim_physical *shim_pool_hold(CUmemoryPool handle)
{
	struct shim_physical *physical = NULL;

	pthread_mutex_lock(&lock);
	for (struct pool *pool = pools; pool; pool = pool->next)
		if (pool->handle == handle && !pool->destroyed && pool->import)
			physical = pool->import;
	if (physical)
		shim_physical_hold_again(physical);
	pthread_mutex_unlock(&lock);
	return physical;
}

static struct pool *take_out(CUmemoryPool handle)
{
	struct pool *pool = NULL;

	pthread_mutex_lock(&lock);
	struct pool **link = &pools;
	while (*link && ((*link)->handle != handle || (*link)->destroyed))
		link = &(*link)->next;
	if (*link) {
		pool = *link;
		*link = pool->next;
	}
	pthread_mutex_unlock(&lock);
	return pool;
}

// In host memory, or imported: what was opened of its owner's stays until here. Taken out first, since the handle may
// be given out again at once.
static CUresult destroy_uncounted(CUmemoryPool handle)
{
	struct pool *pool = shim_counting() ? take_out(handle) : NULL;
	CUresult result = REAL(cuMemPoolDestroy)(handle);

	if (pool && result == CUDA_SUCCESS && pool->imports > 0)
		pool->imports--;
	if (pool && (result != CUDA_SUCCESS || pool->imports > 0)) {
		pthread_mutex_lock(&lock);
		pool->next = pools;
		pools = pool;
		pthread_mutex_unlock(&lock);
	} else if (pool) {
		if (pool->import)
			shim_physical_drop(pool->import);
		free(pool);
	}
	return result;
}

// The driver gives the memory back with the last allocation: until then it stays charged.
SHIM_EXPORT CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool handle)
{
	struct pool *pool = shim_counting() ? counted_pool(handle) : NULL;
	uint64_t left = 0;
	CUresult result;

	if (!pool)
		return destroy_uncounted(handle);
	pthread_mutex_lock(&lock);
	settle(pool, 0);
	pool->destroyed = true; // before the call: the handle may be given out again at once
	pthread_mutex_unlock(&lock);
	result = REAL(cuMemPoolDestroy)(handle);
	forget_current();
	pthread_mutex_lock(&lock);
	if (result != CUDA_SUCCESS) {
		pool->destroyed = false;
	} else if (pool->live == 0) {
		left = end(pool);
	}
	pthread_mutex_unlock(&lock);
	shim_refund(VG_LEDGER_POOL, left);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
	CUresult result = REAL(cuMemPoolTrimTo)(handle, keep);

	if (result == CUDA_SUCCESS && shim_counting())
		shim_pools_settle();
	return result;
}
