// Chooses the default memory resource of a device, for allocations that do not name a resource.
#include "base/mutex.h"
#include "core/buffer.h"
#include "core/device.h"
#include "core/resource.h"
#include "virgate/memory_pool.h"
#include "virgate/memory_resource.h"

static struct vg_mutex lock; // protects `memory_resource` of every device

static enum vg_status choose_resource(struct vg_device *device, struct vg_memory_resource **ret_resource)
{
	struct vg_context *context;
	int pools;

	CORE_TRY(vg_device_property(device, VG_DEVICE_MEMORY_POOLS_SUPPORTED, &pools));
	if (pools)
		return vg_device_pool_current(device, ret_resource);
	CORE_TRY(vg_context_primary(device, &context));
	enum vg_status status = vg_synchronous_resource_create(context, ret_resource);
	vg_context_destroy(context);
	return status;
}

// Returns a new reference to the device's resource, which is chosen at the first call.
static enum vg_status find_resource(struct vg_device *device, struct vg_memory_resource **ret_resource)
{
	enum vg_status status = VG_OK;
	struct vg_memory_resource *closed = NULL;

	vg_mutex_lock(&lock);
	if (device->memory_resource && atomic_load(&device->memory_resource->object.closed)) {
		closed = device->memory_resource; // the program has closed this resource: choose a new one
		device->memory_resource = NULL;
	}
	if (!device->memory_resource)
		status = choose_resource(device, &device->memory_resource);
	if (status == VG_OK)
		*ret_resource = vg_memory_resource_retain(device->memory_resource);
	vg_mutex_unlock(&lock);
	vg_memory_resource_destroy(closed);
	return status;
}

enum vg_status vg_device_memory_resource(struct vg_device *device, struct vg_memory_resource **ret_resource)
{
	VG_ENTRY();
	CORE_NEEDED(device);
	CORE_NEEDED(ret_resource);
	return find_resource(device, ret_resource);
}

enum vg_status vg_device_set_memory_resource(struct vg_device *device, struct vg_memory_resource *resource)
{
	VG_ENTRY();
	CORE_NEEDED(device);
	if (resource)
		CORE_USABLE(resource, "resource");
	vg_memory_resource_retain(resource);
	vg_mutex_lock(&lock);
	struct vg_memory_resource *before = device->memory_resource;
	device->memory_resource = resource;
	vg_mutex_unlock(&lock);
	vg_memory_resource_destroy(before);
	return VG_OK;
}

enum vg_status vg_device_allocate(struct vg_device *device, size_t size, struct vg_stream *stream,
				  struct vg_buffer **ret_buffer)
{
	VG_ENTRY();
	struct vg_memory_resource *resource;

	CORE_NEEDED(device);
	CORE_NEEDED(ret_buffer);
	CORE_TRY(find_resource(device, &resource));
	enum vg_status status = vg_buffer_create(resource, size, stream, ret_buffer);
	vg_memory_resource_destroy(resource);
	return status;
}
