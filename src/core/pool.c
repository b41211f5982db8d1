#include "core/pool.h"

#include <stdlib.h>

// ---- as a resource ---------------------------------------------------------------------------

static enum vg_status check_stream(struct vg_memory_resource *resource, struct vg_stream *stream, const char *function)
{
	bool capturing;

	enum vg_status status = core_stream_is_capturing(stream, function, &capturing);
	if (status || !capturing)
		return status;
	return vg_fail(
		VG_STATE, 0, function,
		"a %s cannot perform memory operations on a capturing stream (consider the graph memory resource)",
		vg_memory_resource_name(resource));
}

static enum vg_status allocate(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
			       const char *function, struct vg_allocation *ret_allocation)
{
	struct core_pool *pool = (struct core_pool *)resource;
	CUdeviceptr address;
	CORE_SCOPE scope = {false};

	if (pool->imported)
		return vg_fail(VG_STATE, 0, function,
			       "the pool was imported: memory is allocated by the process that created it, and "
			       "imported from there");
	if (size == 0)
		return VG_OK;
	CUresult r = core_enter(&scope, stream->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemAllocFromPoolAsync(&address, size, pool->handle, stream->handle);
	if (r)
		return core_allocation_failed(r, function, "cuMemAllocFromPoolAsync", size);
	ret_allocation->address = address;
	return VG_OK;
}

static enum vg_status deallocate(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
				 struct vg_stream *stream, const char *function)
{
	CORE_SCOPE scope = {false};

	if (!allocation->address)
		return VG_OK;
	CUresult r = core_enter(&scope, stream->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemFreeAsync(allocation->address, stream->handle);
	return r ? core_driver_failed(r, function, "cuMemFreeAsync", "%zu bytes of a %s", allocation->size,
				      vg_memory_resource_name(resource))
		 : VG_OK;
}

static enum vg_status close_pool(struct core_object *object, const char *function)
{
	struct core_pool *pool = (struct core_pool *)object;
	CUresult r = pool->owned ? core_driver->cuMemPoolDestroy(pool->handle) : CUDA_SUCCESS;

	return r ? core_driver_failed(r, function, "cuMemPoolDestroy", "%s", "") : VG_OK;
}

static void free_pool(struct core_object *object)
{
	free(object);
}

static const struct core_resource_class device_class = {.object = {"device pool", close_pool, free_pool},
							.check = check_stream,
							.allocate = allocate,
							.deallocate = deallocate};

struct core_pool *core_pool_of(const struct vg_memory_resource *resource)
{
	return resource && core_resource_class(resource)->allocate == allocate ? (struct core_pool *)resource : NULL;
}

// ---- of a device -----------------------------------------------------------------------------

static struct core_pool *new_pool(const struct core_resource_class *class, struct vg_device *device)
{
	struct core_pool *pool = calloc(1, sizeof *pool);

	if (!pool)
		return NULL;
	core_object_init(&pool->resource.object, &class->object);
	pool->resource.needs_stream = true;
	pool->device = device;
	return pool;
}

static enum vg_status new_device_pool(struct vg_device *device, const char *function, struct core_pool **ret_pool)
{
	int supported = 0;

	(void)core_driver->cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device->handle);
	if (!supported)
		return vg_fail(VG_UNSUPPORTED, 0, function,
			       "device %d has no memory pools: use the synchronous resource", device->ordinal);
	struct core_pool *pool = new_pool(&device_class, device);
	if (!pool)
		return vg_fail(VG_NO_MEMORY, 0, function, "no memory for a device pool");
	pool->location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal};
	pool->resource.properties = (struct vg_memory_properties){.device = device->ordinal, .device_accessible = 1};
	*ret_pool = pool;
	return VG_OK;
}

// A pool that gives everything back at each synchronisation is slower than none.
static CUresult keep_memory(CUmemoryPool pool)
{
	cuuint64_t threshold;

	CUresult r = core_driver->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
	if (r || threshold)
		return r;
	threshold = UINT64_MAX;
	return core_driver->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
}

enum vg_status vg_device_pool_current(struct vg_device *device, struct vg_memory_resource **ret_pool)
{
	struct core_pool *pool;

	CORE_NEEDED(device);
	CORE_NEEDED(ret_pool);
	enum vg_status status = new_device_pool(device, __func__, &pool);
	if (status)
		return status;
	CUresult r = core_driver->cuDeviceGetMemPool(&pool->handle, device->handle);
	const char *call = "cuDeviceGetMemPool";
	if (r == CUDA_SUCCESS) {
		r = keep_memory(pool->handle);
		call = "cuMemPoolSetAttribute";
	}
	if (r) {
		free(pool);
		return core_driver_failed(r, __func__, call, "device %d", device->ordinal);
	}
	*ret_pool = &pool->resource;
	return VG_OK;
}

enum vg_status vg_device_pool_create(struct vg_device *device, const struct vg_device_pool_options *options,
				     struct vg_memory_resource **ret_pool)
{
	struct vg_device_pool_options o;
	struct core_pool *pool;

	CORE_NEEDED(device);
	CORE_NEEDED(ret_pool);
	CORE_OPTIONS(o, options);
	enum vg_status status = new_device_pool(device, __func__, &pool);
	if (status)
		return status;
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .handleTypes = o.shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
								: CU_MEM_HANDLE_TYPE_NONE,
				     .location = pool->location,
				     .maxSize = o.max_size};
	CUresult r = core_driver->cuMemPoolCreate(&pool->handle, &properties);
	if (r) {
		free(pool);
		return core_driver_failed(r, __func__, "cuMemPoolCreate", "device %d, at most %zu bytes%s",
					  device->ordinal, o.max_size, o.shareable ? ", shareable" : "");
	}
	pool->owned = true;
	pool->shareable = o.shareable;
	*ret_pool = &pool->resource;
	return VG_OK;
}

// ---- any pool -----------------------------------------------------------------------------------

struct CUmemPoolHandle_st *vg_memory_pool_handle(const struct vg_memory_resource *pool)
{
	const struct core_pool *it = core_pool_of(pool);

	return it && !atomic_load(&pool->object.closed) ? it->handle : NULL;
}

int vg_memory_pool_is_owned(const struct vg_memory_resource *pool)
{
	const struct core_pool *it = core_pool_of(pool);

	return it && it->owned;
}
