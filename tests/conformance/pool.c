// Tests stream-ordered memory: pools, their attributes, growth in steps, release and trimming.
#include "conformance.h"

#include <unistd.h>

static CUstream stream;
static CUmemoryPool pool;

static cuuint64_t attribute(CUmemoryPool which, CUmemPool_attribute name)
{
	cuuint64_t value = 0;

	WORKS(cuMemPoolGetAttribute(which, name, &value));
	return value;
}

static void need_pool(void)
{
	need_context();
	if (!stream)
		NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuDeviceGetDefaultMemPool(&pool, device));
}

static CUmemoryPool make_pool(CUmemAllocationHandleType handles)
{
	CUmemoryPool made = NULL;
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = handles,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};

	NEED(cuMemPoolCreate(&made, &properties));
	return made;
}

CONFORM(default_pool)
{
	CUmemoryPool current = NULL, made;

	need_pool();
	WORKS(cuDeviceGetMemPool(&current, device));
	HOLDS(current == pool);
	GIVES(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
	made = make_pool(CU_MEM_HANDLE_TYPE_NONE);
	WORKS(cuDeviceSetMemPool(device, made));
	WORKS(cuDeviceGetMemPool(&current, device));
	HOLDS(current == made);
	WORKS(cuMemPoolDestroy(made)); // the default pool becomes current again
	WORKS(cuDeviceGetMemPool(&current, device));
	HOLDS(current == pool);
	GIVES(cuDeviceGetDefaultMemPool(NULL, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceGetDefaultMemPool(&current, 99), CUDA_ERROR_INVALID_DEVICE);
}

CONFORM(defaults_of_attributes)
{
	int flag = 9;

	need_pool();
	EQUALS(attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0);
	EQUALS(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
	WORKS(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &flag));
	EQUALS(flag, 1);
	WORKS(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &flag));
	EQUALS(flag, 1);
	WORKS(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &flag));
	EQUALS(flag, 1);
	cuuint64_t value = 5;
	GIVES(cuMemPoolGetAttribute(pool, 99, &value), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value), CUDA_ERROR_INVALID_VALUE);
	value = 0;
	WORKS(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value)); // resets the highest value
}

// Returns the used memory as soon as it is `expected`, or after 4 s. In a vGPU, the daemon may measure the process
// between the growth of a pool and its charge. Then too much is charged until the next measurement.
static size_t await_memory_used(size_t expected)
{
	size_t used = memory_used();

	for (int i = 0; i < 80 && used != expected; i++) {
		usleep(50000);
		used = memory_used();
	}
	return used;
}

CONFORM(growth_in_steps)
{
	static const struct {
		size_t bytes, reserved;
	} steps[] = {{1, 32}, {1 << 20, 32}, {31 << 20, 64}, {33 << 20, 96}, {64 << 20, 160}, {200 << 20, 352}};
	CUdeviceptr parts[6];
	size_t before;

	need_pool();
	NEED(cuMemPoolTrimTo(pool, 0));
	before = memory_used();
	for (int i = 0; i < 6; i++) {
		WORKS(cuMemAllocAsync(&parts[i], steps[i].bytes, stream));
		WORKS(cuStreamSynchronize(stream));
		EQUALS(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), steps[i].reserved * MiB);
		EQUALS(await_memory_used(before + steps[i].reserved * MiB) - before, steps[i].reserved * MiB);
	}
	BETWEEN(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 329 * MiB, 330 * MiB);
	for (int i = 0; i < 6; i++)
		WORKS(cuMemFreeAsync(parts[i], stream));
	EQUALS(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 352 * MiB);
	WORKS(cuStreamSynchronize(stream)); // threshold 0: the pool frees its memory here
	EQUALS(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
	EQUALS(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
	EQUALS(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 352 * MiB);
	EQUALS(await_memory_used(before), before);
}

CONFORM(used_counts_what_was_asked)
{
	CUdeviceptr first, second;
	cuuint64_t before;

	need_pool();
	before = attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
	NEED(cuMemAllocAsync(&first, 1, stream));
	EQUALS(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) - before, 1);
	EQUALS(first % 512, 0);
	NEED(cuMemAllocAsync(&second, 513, stream));
	EQUALS(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) - before, 514);
	EQUALS(second % 512, 0);
	CUdeviceptr base;
	size_t size = 0;
	WORKS(cuMemGetAddressRange(&base, &size, second + 5));
	EQUALS(base, second);
	WORKS(cuMemFreeAsync(first, stream));
	WORKS(cuMemFreeAsync(second, stream));
	WORKS(cuStreamSynchronize(stream));
}

CONFORM(threshold_keeps_memory_until_trim)
{
	CUmemoryPool made;
	CUdeviceptr address, again;
	cuuint64_t threshold = UINT64_MAX;
	size_t before;

	need_pool();
	before = memory_used();
	made = make_pool(CU_MEM_HANDLE_TYPE_NONE);
	EQUALS(memory_used(), before); // the pool has reserved nothing yet
	WORKS(cuMemPoolSetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	WORKS(cuMemAllocFromPoolAsync(&address, 64 * MiB, made, stream));
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(attribute(made, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * MiB);
	EQUALS(memory_used() - before, 64 * MiB);
	WORKS(cuMemAllocFromPoolAsync(&again, 64 * MiB, made, stream));
	EQUALS(again, address);		 // reused
	WORKS(cuMemPoolTrimTo(made, 0)); // the memory is in use, so trimming frees nothing
	EQUALS(attribute(made, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * MiB);
	WORKS(cuMemFreeAsync(again, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemPoolTrimTo(made, 128 * MiB)); // already below
	EQUALS(attribute(made, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * MiB);
	WORKS(cuMemPoolTrimTo(made, 0));
	EQUALS(attribute(made, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
	EQUALS(memory_used(), before);
	WORKS(cuMemPoolDestroy(made));
}

CONFORM(destroyed_with_memory_in_use)
{
	CUmemoryPool made;
	CUdeviceptr address;
	size_t before;

	need_pool();
	before = memory_used();
	made = make_pool(CU_MEM_HANDLE_TYPE_NONE);
	NEED(cuMemAllocFromPoolAsync(&address, 8 * MiB, made, stream));
	NEED(cuStreamSynchronize(stream));
	WORKS(cuMemPoolDestroy(made));
	EQUALS(memory_used() - before, 32 * MiB); // the pool exists until its last allocation is freed
	WORKS(cuMemsetD8(address, 1, 8 * MiB));
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(memory_used(), before);
}

CONFORM(maximum_size)
{
	CUmemoryPool made = NULL;
	CUdeviceptr address, more;
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .maxSize = 64 * MiB,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

	need_pool();
	properties.location.id = device;
	NEED(cuMemPoolCreate(&made, &properties));
	WORKS(cuMemAllocFromPoolAsync(&address, 64 * MiB, made, stream));
	GIVES(cuMemAllocFromPoolAsync(&more, 2 * MiB, made, stream), CUDA_ERROR_OUT_OF_MEMORY);
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemPoolDestroy(made));
}

CONFORM(invalid_allocations)
{
	CUdeviceptr address;
	CUmemoryPool made;

	need_pool();
	WORKS(cuMemAllocAsync(&address, 0, stream)); // 0 bytes take no memory
	GIVES(cuMemAllocAsync(NULL, 16, stream), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAllocAsync(&address, (size_t)1 << 50, stream), CUDA_ERROR_OUT_OF_MEMORY);
	WORKS(cuStreamSynchronize(stream)); // nothing sticks
	GIVES(cuMemFreeAsync(0x1000, stream), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemFreeAsync(0, stream));
	GIVES(cuMemAllocFromPoolAsync(&address, 16, NULL, stream), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemAllocAsync(&address, 4096, stream));
	WORKS(cuMemFreeAsync(address, stream));
	GIVES(cuMemFreeAsync(address, stream), CUDA_ERROR_INVALID_VALUE); // twice
	WORKS(cuStreamSynchronize(stream));
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_INVALID,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	GIVES(cuMemPoolCreate(&made, &properties), CUDA_ERROR_INVALID_VALUE);
	properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	properties.location.id = 99;
	FAILS(cuMemPoolCreate(&made, &properties));
	GIVES(cuMemPoolCreate(NULL, &properties), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(access)
{
	CUmemAccess_flags flags = 99;
	CUmemLocation here;

	need_pool();
	here = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	WORKS(cuMemPoolGetAccess(&flags, pool, &here));
	EQUALS(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CUmemAccessDesc none = {.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE};
	FAILS(cuMemPoolSetAccess(pool, &none, 1)); // the pool's own device always has access
}

// A device can copy to and from a pool of another device only after the pool has granted it access.
CONFORM(copies_of_a_peers_pool)
{
	CUdeviceptr ours, theirs = 0;
	CUcontext other;
	CUmemoryPool their_pool;
	CUstream their_stream;
	int devices = 0, peers = 0;

	need_pool();
	NEED(cuDeviceGetCount(&devices));
	if (devices < 2)
		SKIP("one device is visible");
	NEED(cuDeviceCanAccessPeer(&peers, 0, 1));
	if (!peers)
		SKIP("the devices are no peers");
	NEED(cuMemAlloc(&ours, 4096));
	NEED(cuDevicePrimaryCtxRetain(&other, 1));
	NEED(cuCtxSetCurrent(other));
	NEED(cuDeviceGetDefaultMemPool(&their_pool, 1));
	NEED(cuStreamCreate(&their_stream, CU_STREAM_NON_BLOCKING));
	NEED(cuMemAllocFromPoolAsync(&theirs, 4096, their_pool, their_stream));
	NEED(cuMemsetD8Async(theirs, 0, 4096, their_stream));
	NEED(cuStreamSynchronize(their_stream));
	NEED(cuCtxSetCurrent(context));
	GIVES(cuMemcpyAsync(ours, theirs, 4096, stream), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemcpyAsync(theirs, ours, 4096, stream), CUDA_ERROR_INVALID_VALUE);
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	WORKS(cuMemPoolSetAccess(their_pool, &access, 1));
	WORKS(cuMemcpyAsync(ours, theirs, 4096, stream));
	WORKS(cuMemcpyAsync(theirs, ours, 4096, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemFree(ours));
	NEED(cuCtxSetCurrent(other));
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	WORKS(cuMemPoolSetAccess(their_pool, &access, 1));
	WORKS(cuMemFreeAsync(theirs, their_stream));
	WORKS(cuStreamSynchronize(their_stream));
	WORKS(cuStreamDestroy(their_stream));
	NEED(cuCtxSetCurrent(context));
	WORKS(cuDevicePrimaryCtxRelease(1));
}

CONFORM(a_pool_in_host_memory)
{
	CUmemoryPool made = NULL;
	CUdeviceptr address;
	size_t before;
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0}};

	need_pool();
	if (cuMemPoolCreate(&made, &properties) != CUDA_SUCCESS)
		SKIP("no pools in host memory here");
	before = memory_used();
	WORKS(cuMemAllocFromPoolAsync(&address, 32 * MiB, made, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(memory_used(), before);
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemPoolDestroy(made));
}

CONFORM(export_needs_a_handle_type)
{
	CUmemoryPool made, shared;
	CUmemPoolPtrExportData data;
	CUdeviceptr address;
	int descriptor = -1;

	need_pool();
	made = make_pool(CU_MEM_HANDLE_TYPE_NONE);
	GIVES(cuMemPoolExportToShareableHandle(&descriptor, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	      CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemPoolDestroy(made));
	shared = make_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	WORKS(cuMemPoolExportToShareableHandle(&descriptor, shared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	HOLDS(descriptor >= 0);
	NEED(cuMemAllocFromPoolAsync(&address, 4 * MiB, shared, stream));
	NEED(cuStreamSynchronize(stream));
	WORKS(cuMemPoolExportPointer(&data, address));
	close(descriptor);
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemPoolDestroy(shared));
}

CONFORM(memory_is_usable_in_stream_order)
{
	CUdeviceptr address;
	unsigned word = 0;
	CUmemoryPool owner = NULL;
	CUcontext of, before;
	int ordinal = 99, type = 0;

	need_pool();
	NEED(cuMemAllocAsync(&address, 4096, stream));
	// query before the stream has executed the allocation; in the second round, no context is current
	for (int i = 0; i < 2; i++) {
		of = context;
		NEED(i ? cuCtxPopCurrent(&before) : CUDA_SUCCESS);
		WORKS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
		EQUALS(type, CU_MEMORYTYPE_DEVICE);
		WORKS(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
		EQUALS(ordinal, device);
		WORKS(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, address));
		HOLDS(of == NULL);
		NEED(i ? cuCtxPushCurrent(before) : CUDA_SUCCESS);
	}
	WORKS(cuMemsetD32Async(address, 42, 1024, stream));
	WORKS(cuMemcpyDtoHAsync(&word, address + 4092, 4, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(word, 42);
	WORKS(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address));
	HOLDS(owner == pool);
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
}
