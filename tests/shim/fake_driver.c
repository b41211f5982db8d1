// A small libcuda.so.1 for tests of the interposer. It returns addresses, counts what is allocated, fails on request,
// and runs nothing. Some functions are missing on purpose, to test what the interposer does then.
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "abi/cuda_abi.h"

#include "fake_driver.h"

#define EXPORT __attribute__((visibility("default")))

enum { BLOCKS = 1 << 16 };

enum { FREE, MEMORY, HANDLE, MAPPING, POOLED };

struct block {
	uint64_t key, bytes;
	int what;
	unsigned int references;
	struct fake_pool *pool;
};

struct fake_pool {
	uint64_t reserved, used, chunk;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block blocks[BLOCKS];
static uint64_t next_address = 0x700000000000ull, used_bytes, total_bytes = 16ull << 30, calls;
static struct fake_pool default_pool = {.chunk = 32ull << 20};
static int primary_retains;
static CUcontext current_context;
static char primary_context[64];
static char failing[64];

EXPORT void fake_fail(const char *entry)
{
	strncpy(failing, entry ? entry : "", sizeof failing - 1);
}

EXPORT uint64_t fake_used(void)
{
	return used_bytes;
}

EXPORT uint64_t fake_calls(void)
{
	return calls;
}

// whether this process was forked from one that had used the driver; its calls then return errors, as with the real
// driver
static bool forked;

static void after_fork(void)
{
	forked = true;
}

static CUresult begin(const char *entry)
{
	if (forked)
		return CUDA_ERROR_NOT_INITIALIZED;
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	return strcmp(entry, failing) == 0 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}
#define BEGIN(entry)                             \
	do {                                     \
		CUresult failure = begin(entry); \
		if (failure)                     \
			return failure;          \
	} while (0)

static struct block *find(uint64_t key, int what)
{
	for (uint64_t i = key >> 9, n = 0; n < BLOCKS; i++, n++) {
		struct block *block = &blocks[i % BLOCKS];
		if (what == FREE ? block->what == FREE : block->what == what && block->key == key)
			return block;
		if (what != FREE && block->what == FREE && block->key == 0)
			return NULL; // this block was never used, so the search ends
	}
	return NULL;
}

static CUresult add(uint64_t bytes, int what, struct fake_pool *pool, uint64_t key, uint64_t *ret_key)
{
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	pthread_mutex_lock(&lock);
	if (bytes <= total_bytes - used_bytes) {
		if (!key) {
			key = next_address;
			next_address += (bytes + 511) & ~511ull;
		}
		struct block *block = find(key, FREE);
		if (block) {
			*block = (struct block){key, bytes, what, 1, pool};
			used_bytes += what == MAPPING ? 0 : bytes;
			*ret_key = key;
			result = CUDA_SUCCESS;
		}
	}
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult remove_block(uint64_t key, int what)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&lock);
	struct block *block = find(key, what);
	if (block) {
		if (--block->references == 0) {
			used_bytes -= what == MAPPING ? 0 : block->bytes;
			if (block->pool)
				block->pool->used -= block->bytes;
			block->what = FREE;
		}
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

EXPORT CUresult CUDAAPI cuInit(unsigned int flags)
{
	BEGIN("cuInit");
	pthread_atfork(NULL, NULL, after_fork);
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDriverGetVersion(int *version)
{
	*version = 13000;
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	*bytes = total_bytes;
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemGetInfo_v2(size_t *free, size_t *total)
{
	if (free)
		*free = total_bytes - used_bytes;
	if (total)
		*total = total_bytes;
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	static __thread CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CUstreamCaptureMode before = current;

	current = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxGetCurrent(CUcontext *context)
{
	*context = current_context;
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuCtxSetCurrent(CUcontext context)
{
	current_context = context;
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	BEGIN("cuDevicePrimaryCtxRetain");
	primary_retains++;
	*context = (CUcontext)primary_context;
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	primary_retains--;
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	*flags = 0;
	*active = primary_retains > 0;
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	BEGIN("cuMemAlloc_v2");
	return bytes ? add(bytes, MEMORY, NULL, 0, (uint64_t *)address) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned int flags)
{
	BEGIN("cuMemAllocManaged");
	return add(bytes, MEMORY, NULL, 0, (uint64_t *)address);
}

// Returns a pitch that the interposer cannot guess.
EXPORT CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
					   unsigned int element)
{
	BEGIN("cuMemAllocPitch_v2");
	*pitch = (width + 4095) & ~4095ull;
	return add(*pitch * height, MEMORY, NULL, 0, (uint64_t *)address);
}

EXPORT CUresult CUDAAPI cuMemFree_v2(CUdeviceptr address)
{
	BEGIN("cuMemFree_v2");
	return remove_block(address, MEMORY) == CUDA_SUCCESS ? CUDA_SUCCESS : remove_block(address, POOLED);
}

EXPORT CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
				    const CUmemAllocationProp *properties, unsigned long long flags)
{
	BEGIN("cuMemCreate");
	return add(size, HANDLE, NULL, 0, (uint64_t *)handle);
}

// Returns a descriptor that can be polled, like that of a real dma-buf.
EXPORT CUresult CUDAAPI cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size,
						      CUmemRangeHandleType type, unsigned long long flags)
{
	BEGIN("cuMemGetHandleForAddressRange");
	*(int *)handle = eventfd(0, EFD_CLOEXEC);
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle)
{
	BEGIN("cuMemRelease");
	return remove_block(handle, HANDLE);
}

EXPORT CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
				 unsigned long long flags)
{
	uint64_t key;

	BEGIN("cuMemMap");
	return add(size, MAPPING, NULL, address, &key);
}

EXPORT CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t size)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	BEGIN("cuMemUnmap");
	for (uint64_t at = address; at < address + size; at += 2ull << 20)
		if (remove_block(at, MAPPING) == CUDA_SUCCESS)
			result = CUDA_SUCCESS;
	return result;
}

// Reports that the device supports GPUDirect RDMA. All other attributes are 0.
EXPORT CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
	BEGIN("cuDeviceGetAttribute");
	if (attribute != CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED &&
	    attribute != CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)
		return CUDA_ERROR_NOT_SUPPORTED;
	*value = 1;
	return CUDA_SUCCESS;
}

static unsigned int last_access;

EXPORT unsigned int fake_access(void)
{
	return last_access;
}

EXPORT CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)
{
	BEGIN("cuMemSetAccess");
	last_access = access->flags;
	return CUDA_SUCCESS;
}

// Creates an object without memory. The driver does not track bindings, mappings and imports, since the tests check
// that the interposer tracks them.
static CUresult bare_object(const char *entry, void *ret_handle)
{
	BEGIN(entry);
	pthread_mutex_lock(&lock);
	uint64_t key = next_address;
	next_address += 512;
	pthread_mutex_unlock(&lock);
	memcpy(ret_handle, &key, sizeof key);
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMulticastCreate(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *properties)
{
	BEGIN("cuMulticastCreate");
	return add(0, HANDLE, NULL, 0, (uint64_t *)handle);
}

EXPORT CUresult CUDAAPI cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t offset,
					   CUmemGenericAllocationHandle handle, size_t handle_offset, size_t size,
					   unsigned long long flags)
{
	BEGIN("cuMulticastBindMem");
	return find(handle, HANDLE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult CUDAAPI cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, size_t offset, CUdeviceptr address,
					    size_t size, unsigned long long flags)
{
	BEGIN("cuMulticastBindAddr");
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMulticastUnbind(CUmemGenericAllocationHandle multicast, CUdevice device, size_t offset,
					  size_t size)
{
	BEGIN("cuMulticastUnbind");
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	return bare_object("cuArray3DCreate_v2", array);
}

EXPORT CUresult CUDAAPI cuArrayDestroy(CUarray array)
{
	BEGIN("cuArrayDestroy");
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	BEGIN("cuMemMapArrayAsync");
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuImportExternalMemory(CUexternalMemory *memory,
					       const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description)
{
	return bare_object("cuImportExternalMemory", memory);
}

EXPORT CUresult CUDAAPI cuDestroyExternalMemory(CUexternalMemory memory)
{
	BEGIN("cuDestroyExternalMemory");
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	*pool = (CUmemoryPool)&default_pool;
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
	struct fake_pool *made = calloc(1, sizeof *made);

	made->chunk = 32ull << 20;
	*pool = (CUmemoryPool)made;
	return CUDA_SUCCESS;
}

static void (*on_pool_destroy)(void);

EXPORT void fake_on_pool_destroy(void (*call)(void))
{
	on_pool_destroy = call;
}

EXPORT CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool)
{
	if (on_pool_destroy)
		on_pool_destroy();
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	struct fake_pool *pool = (struct fake_pool *)handle;

	if (attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT && attribute != CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	*(uint64_t *)value = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? pool->reserved : pool->used;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
	struct fake_pool *pool = (struct fake_pool *)handle;
	uint64_t least;

	pthread_mutex_lock(&lock);
	least = pool->used > keep ? pool->used : keep;
	least = (least + pool->chunk - 1) / pool->chunk * pool->chunk;
	if (least < pool->reserved)
		pool->reserved = least;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool handle,
						CUstream stream)
{
	struct fake_pool *pool = (struct fake_pool *)handle;
	CUresult result;

	BEGIN("cuMemAllocFromPoolAsync");
	result = add(bytes, POOLED, pool, 0, (uint64_t *)address);
	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&lock);
	pool->used += bytes;
	if (pool->used > pool->reserved)
		pool->reserved = (pool->used + pool->chunk - 1) / pool->chunk * pool->chunk;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	return cuMemAllocFromPoolAsync(address, bytes, (CUmemoryPool)&default_pool, stream);
}

EXPORT CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	BEGIN("cuMemFreeAsync");
	return remove_block(address, POOLED) == CUDA_SUCCESS ? CUDA_SUCCESS : remove_block(address, MEMORY);
}

EXPORT CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
				       unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
				       CUstream stream, void **parameters, void **extra)
{
	return gx == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Returns an error unless every argument has arrived, including those on the stack.
EXPORT CUresult CUDAAPI cuLaunchKernel_ptsz(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
					    unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
					    CUstream stream, void **parameters, void **extra)
{
	return function == (CUfunction)1 && gx == 2 && gy == 3 && gz == 4 && bx == 5 && by == 6 && bz == 7 &&
			       shared == 8 && stream == (CUstream)9 && parameters == (void **)10 && extra == (void **)11
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

static float seen_float;

EXPORT CUresult CUDAAPI cuParamSetf(CUfunction function, int offset, float value)
{
	seen_float = value;
	return CUDA_SUCCESS;
}

EXPORT float fake_float(void)
{
	return seen_float;
}

EXPORT CUresult CUDAAPI cuCtxSynchronize(void)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	memset(uuid, 7, sizeof *uuid);
	return CUDA_SUCCESS;
}

EXPORT CUresult CUDAAPI cuStreamSynchronize(CUstream stream)
{
	return CUDA_SUCCESS;
}

// These functions are in newer drivers only.
static CUresult CUDAAPI new_query(void)
{
	return CUDA_SUCCESS;
}

static CUresult CUDAAPI new_allocator(void)
{
	return CUDA_SUCCESS;
}

static CUresult look_up(const char *name, void **address, int version, cuuint64_t flags)
{
	*address = NULL;
	if (strcmp(name, "cuVirgateTestNewQuery") == 0)
		*address = (void *)new_query;
	else if (strcmp(name, "cuVirgateTestNewAlloc") == 0 ||
		 (strcmp(name, "cuMemCreate") == 0 && version > CUDA_VERSION))
		*address = (void *)new_allocator;
	else if (strcmp(name, "cuMemAlloc") == 0 && version >= 3020)
		*address = (void *)cuMemAlloc_v2;
	else if (strcmp(name, "cuMemCreate") == 0 && version >= 10020)
		*address = (void *)cuMemCreate;
	else if (strcmp(name, "cuLaunchKernel") == 0)
		*address = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? (void *)cuLaunchKernel_ptsz
										 : (void *)cuLaunchKernel;
	else if (strcmp(name, "cuGetProcAddress") == 0)
		*address = version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
	return *address ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult CUDAAPI cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
	return look_up(symbol, pfn, version, flags);
}

EXPORT CUresult CUDAAPI cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
					    CUdriverProcAddressQueryResult *status)
{
	CUresult result = look_up(symbol, pfn, version, flags);

	if (status)
		*status = result == CUDA_SUCCESS ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return result;
}

// Creates an event, which counts as completed as soon as it is recorded.
EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	static char events[1024];
	static unsigned int made;

	BEGIN("cuEventCreate");
	*event = (CUevent)&events[__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED) % sizeof events];
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventQuery(CUevent event)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end)
{
	*ms = 0.002f;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	*context = current_context;
	return CUDA_SUCCESS;
}
