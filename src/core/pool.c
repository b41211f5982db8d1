#include "core/pool.h"

#include "core/pending.h"

#include <stdlib.h>
#include <string.h>

// ---- the resource -------------------------------------------------------------------------------

static enum vg_status allocate_from_pool(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
					 struct vg_allocation *ret_allocation)
{
	struct core_pool *pool = (struct core_pool *)resource;
	CUdeviceptr address;
	CORE_SCOPE scope = {false};

	core_pending_retry();
	if (pool->foreign)
		return vg_fail(VG_STATE, 0,
			       "the pool was imported: its own process allocates, and this one imports buffers");
	if (size == 0)
		return VG_OK;
	CUresult r = core_enter(&scope, stream->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemAllocFromPoolAsync(&address, size, pool->handle, stream->handle);
	if (r)
		return core_allocation_failed(r, "cuMemAllocFromPoolAsync", size);
	ret_allocation->address = address;
	return VG_OK;
}

static enum vg_status free_to_pool(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
				   struct vg_stream *stream)
{
	struct core_pool *pool = (struct core_pool *)resource;
	CORE_SCOPE scope = {false};

	if (!allocation->address)
		return VG_OK;
	// Defer the deallocation while the stream is being captured: it would invalidate the capture or leak the
	// memory.
	if (core_pending_needed(stream))
		return core_pending_add(resource, allocation, stream);
	if (allocation->user)
		return core_import_release(pool, allocation->user, stream);
	CUresult r = core_enter(&scope, stream->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemFreeAsync(allocation->address, stream->handle);
	return r ? core_driver_failed(r, "cuMemFreeAsync", "%zu bytes of a %s", allocation->size,
				      vg_memory_resource_name(resource))
		 : VG_OK;
}

static enum vg_status close_pool(struct core_object *object)
{
	struct core_pool *pool = (struct core_pool *)object;

	core_pool_unregister(pool);
	if (pool->foreign)
		return core_foreign_pool_release(pool);
	if (!pool->owned)
		return VG_OK;
	if (pool->device)
		core_pool_revoke(pool); // some drivers fail to destroy a pool that other devices have access to
	CUresult r = core_driver->cuMemPoolDestroy(pool->handle);
	return r ? core_driver_failed(r, "cuMemPoolDestroy", "%s", "") : VG_OK;
}

static void free_pool(struct core_object *object)
{
	struct core_pool *pool = (struct core_pool *)object;

	free(pool);
}

#define POOL_CLASS(name)                                                                        \
	{                                                                                       \
		.object = {name, close_pool, free_pool}, .check = core_resource_refuse_capture, \
		.allocate = allocate_from_pool, .deallocate = free_to_pool                      \
	}
const struct core_resource_class core_device_pool = POOL_CLASS("device pool"),
				 core_pinned_pool = POOL_CLASS("pinned pool"),
				 core_managed_pool = POOL_CLASS("managed pool");

struct core_pool *core_pool_of(const struct vg_memory_resource *resource)
{
	return resource && core_resource_class(resource)->allocate == allocate_from_pool ? (struct core_pool *)resource
											 : NULL;
}

enum vg_status core_pool_check(const struct vg_memory_resource *resource, struct core_pool **ret_pool)
{
	CORE_USABLE(resource, "pool");
	struct core_pool *pool = core_pool_of(resource);
	if (!pool)
		return vg_fail(VG_INVALID, 0, "a %s is not a memory pool", vg_memory_resource_name(resource));
	*ret_pool = pool;
	return VG_OK;
}

struct core_pool *core_pool_new(const struct core_resource_class *class, struct vg_device *device)
{
	struct core_pool *pool = calloc(1, sizeof *pool);

	if (!pool)
		return NULL;
	core_object_init(&pool->resource.object, &class->object);
	pool->resource.needs_stream = true;
	pool->resource.properties = (struct vg_memory_properties){.device = device ? device->ordinal : -1,
								  .device_accessible = 1,
								  .host_accessible = class != &core_device_pool,
								  .managed = class == &core_managed_pool};
	pool->device = device;
	return pool;
}

// ---- properties ---------------------------------------------------------------------------------

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

int vg_memory_pool_is_shareable(const struct vg_memory_resource *pool)
{
	const struct core_pool *it = core_pool_of(pool);

	return it && it->shareable;
}

int vg_memory_pool_is_mapped(const struct vg_memory_resource *pool)
{
	const struct core_pool *it = core_pool_of(pool);

	return it && it->foreign;
}

enum vg_status vg_memory_pool_location(const struct vg_memory_resource *resource,
				       struct vg_memory_location *ret_location)
{
	VG_ENTRY();
	struct core_pool *pool;

	CORE_TRY(core_pool_check(resource, &pool));
	CORE_NEEDED(ret_location);
	*ret_location = (struct vg_memory_location){(enum vg_location_type)pool->location.type, pool->location.id};
	return VG_OK;
}

static CUresult read_flag(CUmemoryPool pool, CUmemPool_attribute attribute, int *ret_flag)
{
	int value;

	CUresult r = core_driver->cuMemPoolGetAttribute(pool, attribute, &value);
	if (r == CUDA_SUCCESS)
		*ret_flag = value != 0;
	return r;
}

static CUresult read_bytes(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t *ret_bytes)
{
	cuuint64_t value;

	CUresult r = core_driver->cuMemPoolGetAttribute(pool, attribute, &value);
	if (r == CUDA_SUCCESS)
		*ret_bytes = value;
	return r;
}

enum vg_status vg_memory_pool_attributes(const struct vg_memory_resource *resource,
					 struct vg_memory_pool_attributes *ret_attributes)
{
	VG_ENTRY();
	struct core_pool *pool;
	struct vg_memory_pool_attributes a;

	CORE_TRY(core_pool_check(resource, &pool));
	CORE_NEEDED(ret_attributes);
	if (pool->foreign)
		return vg_fail(VG_STATE, 0, "the pool was imported: the process that created it can ask");
	CUmemoryPool handle = pool->handle;
	CUresult r =
		read_flag(handle, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &a.reuse_follow_event_dependencies);
	if (r == CUDA_SUCCESS)
		r = read_flag(handle, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &a.reuse_allow_opportunistic);
	if (r == CUDA_SUCCESS)
		r = read_flag(handle, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
			      &a.reuse_allow_internal_dependencies);
	if (r == CUDA_SUCCESS)
		r = read_bytes(handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &a.release_threshold);
	if (r == CUDA_SUCCESS)
		r = read_bytes(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &a.reserved_mem_current);
	if (r == CUDA_SUCCESS)
		r = read_bytes(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &a.reserved_mem_high);
	if (r == CUDA_SUCCESS)
		r = read_bytes(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &a.used_mem_current);
	if (r == CUDA_SUCCESS)
		r = read_bytes(handle, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &a.used_mem_high);
	if (r)
		return core_driver_failed(r, "cuMemPoolGetAttribute", "%s", "");
	*ret_attributes = a;
	return VG_OK;
}
