// Implements work queue resources, which CUDA 13.1 added.
#include "core/context.h"
#include "core/device_resource.h"
#include "core/error.h"
#include "core/stream.h"

#include <stdlib.h>
#include <string.h>

static void free_resource(struct core_object *object)
{
	free(object);
}

static const struct core_class resource_class = {"work queue resource", NULL, free_resource};

static enum vg_status query_workqueue(struct vg_device *device, struct vg_context *context,
				      struct vg_workqueue_resource **ret_resource)
{
	CUdevResource config, queue;

	if (core_driver_version() < CORE_DRIVER_13_1)
		return core_needs_driver(CORE_DRIVER_13_1, "work queues");
	CUresult r = core_resource_query(device, context, CORE_RESOURCE_WORKQUEUE_CONFIG, &config);
	if (r == CUDA_SUCCESS)
		r = core_resource_query(device, context, CORE_RESOURCE_WORKQUEUE, &queue);
	if (r)
		return core_driver_failed(r, "cuDeviceGetDevResource", "the work queues of device %d", device->ordinal);
	struct vg_workqueue_resource *resource = calloc(1, sizeof *resource);
	if (!resource)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a work queue resource");
	core_object_init(&resource->object, &resource_class);
	resource->device = device;
	resource->config = config;
	resource->queue = queue;
	*ret_resource = resource;
	return VG_OK;
}

CORE_RESOURCE_GETTERS(workqueue)

void vg_workqueue_resource_destroy(struct vg_workqueue_resource *resource)
{
	core_object_release(resource ? &resource->object : NULL);
}

static union core_resource_fields read_fields(const struct vg_workqueue_resource *resource)
{
	union core_resource_fields fields;

	memcpy(fields.bytes, resource->config._oversize, sizeof fields.bytes);
	return fields;
}

enum vg_workqueue_scope vg_workqueue_resource_scope(const struct vg_workqueue_resource *resource)
{
	if (!resource)
		return VG_WORKQUEUE_SCOPE_UNCHANGED;
	return (enum vg_workqueue_scope)(read_fields(resource).workqueue.sharing_scope + VG_WORKQUEUE_SCOPE_DEVICE);
}

unsigned vg_workqueue_resource_concurrency_limit(const struct vg_workqueue_resource *resource)
{
	return resource ? read_fields(resource).workqueue.concurrency_limit : 0;
}

struct vg_device *vg_workqueue_resource_device(const struct vg_workqueue_resource *resource)
{
	return resource ? resource->device : NULL;
}

const void *vg_workqueue_resource_handle(const struct vg_workqueue_resource *resource)
{
	return resource ? &resource->config : NULL;
}

enum vg_status vg_workqueue_resource_configure(struct vg_workqueue_resource *resource,
					       const struct vg_workqueue_options *options)
{
	VG_ENTRY();
	struct vg_workqueue_options o;

	CORE_USABLE(resource, "resource");
	CORE_OPTIONS(o, options);
	if ((unsigned)o.scope > VG_WORKQUEUE_SCOPE_GREEN_BALANCED)
		return vg_fail(VG_INVALID, 0,
			       "sharing scope %d: there are %d (device) and %d (green contexts, balanced)", o.scope,
			       VG_WORKQUEUE_SCOPE_DEVICE, VG_WORKQUEUE_SCOPE_GREEN_BALANCED);
	if (o.concurrency_limit < 0)
		return vg_fail(VG_INVALID, 0, "concurrency limit %d: it must be at least 1, or 0 to stay as it is",
			       o.concurrency_limit);
	union core_resource_fields fields = read_fields(resource);
	if (o.scope)
		fields.workqueue.sharing_scope = (int)o.scope - VG_WORKQUEUE_SCOPE_DEVICE;
	if (o.concurrency_limit)
		fields.workqueue.concurrency_limit = (unsigned)o.concurrency_limit;
	memcpy(resource->config._oversize, fields.bytes, sizeof fields.bytes);
	return VG_OK;
}
