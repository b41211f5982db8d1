#include "core/device_resource.h"

#include "core/context.h"
#include "core/error.h"
#include "core/stream.h"

#include <stdlib.h>
#include <string.h>

static void free_resource(struct core_object *object)
{
	free(object);
}

static const struct core_class resource_class = {"SM resource", NULL, free_resource};

CUresult core_resource_query(struct vg_device *device, struct vg_context *context, int type, CUdevResource *ret_native)
{
	memset(ret_native, 0, sizeof *ret_native);
	if (!context)
		return core_driver->cuDeviceGetDevResource(device->handle, ret_native, (CUdevResourceType)type);
	if (!context->green)
		return core_driver->cuCtxGetDevResource(context->identity, ret_native, (CUdevResourceType)type);
	vg_mutex_lock(&context->green_lock);
	CUresult r = core_driver->cuGreenCtxGetDevResource(context->green, ret_native, (CUdevResourceType)type);
	vg_mutex_unlock(&context->green_lock);
	return r;
}

struct vg_sm_resource *core_sm_resource_new(struct vg_device *device)
{
	struct vg_sm_resource *resource = calloc(1, sizeof *resource);

	if (resource) {
		core_object_init(&resource->object, &resource_class);
		resource->device = device;
	}
	return resource;
}

void core_sm_resource_fill(struct vg_sm_resource *resource, const CUdevResource *native,
			   const struct vg_sm_resource *parent)
{
	// Granularity in SMs if the driver does not report one.
	unsigned step = resource->device->compute_major >= 9 ? 8 : 2;
	union core_resource_fields fields;

	resource->native = *native;
	memcpy(fields.bytes, native->_oversize, sizeof fields.bytes);
	resource->count = fields.sm.count;
	resource->min_partition_size = fields.sm.min_partition_size;
	resource->coscheduled_alignment = fields.sm.coscheduled_alignment;
	resource->flags = core_driver_version() >= CORE_DRIVER_13_1 ? fields.sm.flags : 0;
	if (!resource->min_partition_size)
		resource->min_partition_size = parent ? parent->min_partition_size : step;
	if (!resource->coscheduled_alignment)
		resource->coscheduled_alignment = parent ? parent->coscheduled_alignment : step;
}

static enum vg_status query_sm(struct vg_device *device, struct vg_context *context,
			       struct vg_sm_resource **ret_resource)
{
	struct vg_sm_resource *resource = core_sm_resource_new(device);
	CUdevResource native;

	if (!resource)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for an SM resource");
	CUresult r = core_resource_query(device, context, CU_DEV_RESOURCE_TYPE_SM, &native);
	if (r) {
		core_object_release(&resource->object);
		return core_driver_failed(r, "cuDeviceGetDevResource", "the SMs of device %d", device->ordinal);
	}
	core_sm_resource_fill(resource, &native, NULL);
	*ret_resource = resource;
	return VG_OK;
}

CORE_RESOURCE_GETTERS(sm)

void vg_sm_resource_destroy(struct vg_sm_resource *resource)
{
	core_object_release(resource ? &resource->object : NULL);
}

unsigned vg_sm_resource_count(const struct vg_sm_resource *resource)
{
	return resource ? resource->count : 0;
}

unsigned vg_sm_resource_min_partition_size(const struct vg_sm_resource *resource)
{
	return resource ? resource->min_partition_size : 0;
}

unsigned vg_sm_resource_coscheduled_alignment(const struct vg_sm_resource *resource)
{
	return resource ? resource->coscheduled_alignment : 0;
}

unsigned vg_sm_resource_flags(const struct vg_sm_resource *resource)
{
	return resource ? resource->flags : 0;
}

int vg_sm_resource_is_dry_run(const struct vg_sm_resource *resource)
{
	return resource && resource->dry_run;
}

struct vg_device *vg_sm_resource_device(const struct vg_sm_resource *resource)
{
	return resource ? resource->device : NULL;
}

const void *vg_sm_resource_handle(const struct vg_sm_resource *resource)
{
	return resource ? &resource->native : NULL;
}
