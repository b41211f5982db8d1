// Allocates memory that is not ordered by streams: page-locked host memory, and memory of devices without pools.
#include "core/pending.h"
#include "core/resource.h"
#include "virgate/memory_resource.h"

#include <stdlib.h>

struct plain_resource {
	struct vg_memory_resource resource;
	struct vg_context *context; // owns a reference
};

static enum vg_status allocate_pinned(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
				      struct vg_allocation *ret_allocation)
{
	struct plain_resource *it = (struct plain_resource *)resource;
	void *address;
	CORE_SCOPE scope = {false};

	if (size == 0)
		return VG_OK;
	CUresult r = core_enter(&scope, it->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemAllocHost_v2(&address, size);
	if (r)
		return core_driver_failed(r, "cuMemAllocHost", "asked for %zu bytes of pinned memory", size);
	ret_allocation->address = (uintptr_t)address;
	return VG_OK;
}

static enum vg_status allocate_device(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
				      struct vg_allocation *ret_allocation)
{
	struct plain_resource *it = (struct plain_resource *)resource;
	CUdeviceptr address;
	CORE_SCOPE scope = {false};

	if (size == 0)
		return VG_OK;
	CUresult r = core_enter(&scope, it->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemAlloc_v2(&address, size);
	if (r)
		return core_allocation_failed(r, "cuMemAlloc", size);
	ret_allocation->address = address;
	return VG_OK;
}

static const struct core_resource_class pinned_class;

static enum vg_status free_plain_memory(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
					struct vg_stream *stream)
{
	struct plain_resource *it = (struct plain_resource *)resource;
	CORE_SCOPE scope = {false};

	if (!allocation->address)
		return VG_OK;
	if (core_pending_needed(stream))
		return core_pending_add(resource, allocation, stream);
	if (stream)
		core_stream_wait(stream);
	CUresult r = core_enter(&scope, it->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_resource_class(resource) == &pinned_class
			    ? core_driver->cuMemFreeHost((void *)(uintptr_t)allocation->address)
			    : core_driver->cuMemFree_v2(allocation->address);
	return r ? core_driver_failed(r, "cuMemFree", "%zu bytes of a %s", allocation->size,
				      vg_memory_resource_name(resource))
		 : VG_OK;
}

static void free_plain(struct core_object *object)
{
	struct plain_resource *it = (struct plain_resource *)object;

	vg_context_destroy(it->context);
	free(it);
}

static const struct core_resource_class pinned_class = {.object = {"legacy pinned resource", NULL, free_plain},
							.check = core_resource_refuse_capture,
							.allocate = allocate_pinned,
							.deallocate = free_plain_memory};
static const struct core_resource_class device_class = {.object = {"synchronous resource", NULL, free_plain},
							.check = core_resource_refuse_capture,
							.allocate = allocate_device,
							.deallocate = free_plain_memory};

static enum vg_status create_resource(const struct core_resource_class *class, struct vg_context *context,
				      struct vg_memory_properties properties, struct vg_memory_resource **ret_resource)
{
	struct plain_resource *it = calloc(1, sizeof *it);

	if (!it)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a %s", class->object.name);
	core_object_init(&it->resource.object, &class->object);
	it->resource.properties = properties;
	core_object_retain(&context->object);
	it->context = context;
	*ret_resource = &it->resource;
	return VG_OK;
}

enum vg_status vg_legacy_pinned_resource_create(struct vg_context *context, struct vg_memory_resource **ret_resource)
{
	VG_ENTRY();
	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_resource);
	return create_resource(
		&pinned_class, context,
		(struct vg_memory_properties){.device = -1, .device_accessible = 1, .host_accessible = 1},
		ret_resource);
}

enum vg_status vg_synchronous_resource_create(struct vg_context *context, struct vg_memory_resource **ret_resource)
{
	VG_ENTRY();
	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_resource);
	return create_resource(
		&device_class, context,
		(struct vg_memory_properties){.device = context->device->ordinal, .device_accessible = 1},
		ret_resource);
}
