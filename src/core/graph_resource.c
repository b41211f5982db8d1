// Manages the memory that captured graphs allocate: one resource for each device.
#include "base/mutex.h"
#include "core/device.h"
#include "core/resource.h"
#include "virgate/memory_resource.h"

#include <stdlib.h>

struct graph_resource {
	struct vg_memory_resource resource;
	struct vg_device *device;
	struct graph_resource *next;
};

// Returns whether the stream is the legacy default stream, which cannot be captured.
static bool is_legacy(const struct vg_stream *stream)
{
	return !stream->handle || stream->handle == CU_STREAM_LEGACY;
}

static enum vg_status check_stream(struct vg_memory_resource *resource, struct vg_stream *stream)
{
	bool capturing;

	enum vg_status status = core_stream_is_capturing(stream, &capturing);
	if (status || (capturing && !is_legacy(stream)))
		return status;
	return vg_fail(
		VG_STATE, 0,
		"a graph memory resource cannot perform memory operations on a non-capturing stream (consider a pool)");
}

static enum vg_status allocate_in_graph(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
					struct vg_allocation *ret_allocation)
{
	CUdeviceptr address;
	CORE_SCOPE scope = {false};

	if (size == 0)
		return VG_OK;
	CUresult r = core_enter(&scope, stream->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemAllocAsync(&address, size, stream->handle);
	if (r)
		return core_allocation_failed(r, "cuMemAllocAsync", size);
	ret_allocation->address = address;
	return VG_OK;
}

static enum vg_status free_in_graph(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
				    struct vg_stream *stream)
{
	bool capturing = false;
	CORE_SCOPE scope = {false};

	// Outside of a capture there is nothing to free: after its capture, the memory belongs to the graph.
	if (!allocation->address || is_legacy(stream) || core_stream_is_capturing(stream, &capturing) || !capturing)
		return VG_OK;
	CUresult r = core_enter(&scope, stream->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuMemFreeAsync(allocation->address, stream->handle);
	return r ? core_driver_failed(r, "cuMemFreeAsync", "%zu bytes of graph memory", allocation->size) : VG_OK;
}

static const struct core_resource_class graph_class = {.object = {"graph memory resource", NULL, NULL},
						       .permanent = true,
						       .check = check_stream,
						       .allocate = allocate_in_graph,
						       .deallocate = free_in_graph};

// Returns a new reference to the device's resource. The list keeps one reference for ever, since devices are never
// freed.
static struct graph_resource *find_resource(struct vg_device *device)
{
	static struct vg_mutex lock;
	static struct graph_resource *list;
	struct graph_resource *it;

	vg_mutex_lock(&lock);
	for (it = list; it && it->device != device; it = it->next)
		;
	if (!it && (it = calloc(1, sizeof *it))) {
		core_object_init(&it->resource.object, &graph_class.object);
		it->resource.properties =
			(struct vg_memory_properties){.device = device->ordinal, .device_accessible = 1};
		it->resource.needs_stream = true;
		it->device = device;
		it->next = list;
		list = it;
	}
	if (it)
		core_object_retain(&it->resource.object);
	vg_mutex_unlock(&lock);
	return it;
}

enum vg_status vg_graph_memory_resource(struct vg_device *device, struct vg_memory_resource **ret_resource)
{
	VG_ENTRY();
	int pools = 0;

	CORE_NEEDED(device);
	CORE_NEEDED(ret_resource);
	CORE_TRY(vg_device_property(device, VG_DEVICE_MEMORY_POOLS_SUPPORTED, &pools));
	if (!pools)
		return vg_fail(VG_UNSUPPORTED, 0, "device %d has no memory pools, and graphs cannot allocate on it",
			       device->ordinal);
	struct graph_resource *it = find_resource(device);
	if (!it)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a graph memory resource");
	*ret_resource = &it->resource;
	return VG_OK;
}

// ---- figures of a device ------------------------------------------------------------------------

enum vg_status vg_graph_memory_attributes(struct vg_device *device, struct vg_graph_memory_attributes *ret_attributes)
{
	VG_ENTRY();
	static const CUgraphMem_attribute attributes[] = {
		CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH,
		CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH};
	cuuint64_t values[4];

	CORE_NEEDED(device);
	CORE_NEEDED(ret_attributes);
	for (int i = 0; i < 4; i++)
		CORE_CALL(cuDeviceGetGraphMemAttribute, device->handle, attributes[i], &values[i]);
	*ret_attributes = (struct vg_graph_memory_attributes){values[0], values[1], values[2], values[3]};
	return VG_OK;
}

static enum vg_status reset_attribute(struct vg_device *device, CUgraphMem_attribute attribute, uint64_t value,
				      const char *name)
{
	cuuint64_t zero = 0;

	if (!device)
		return vg_fail(VG_INVALID, 0, "device is NULL");
	if (value)
		return vg_fail(VG_INVALID, 0, "attribute %s may only be set to zero (got %llu)", name,
			       (unsigned long long)value);
	CUresult r = core_driver->cuDeviceSetGraphMemAttribute(device->handle, attribute, &zero);
	return r ? core_driver_failed(r, "cuDeviceSetGraphMemAttribute", "%s", name) : VG_OK;
}

enum vg_status vg_graph_memory_set_reserved_mem_high(struct vg_device *device, uint64_t value)
{
	VG_ENTRY();
	return reset_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, value, "reserved_mem_high");
}

enum vg_status vg_graph_memory_set_used_mem_high(struct vg_device *device, uint64_t value)
{
	VG_ENTRY();
	return reset_attribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, value, "used_mem_high");
}

enum vg_status vg_graph_memory_trim(struct vg_device *device)
{
	VG_ENTRY();
	CORE_NEEDED(device);
	CORE_CALL(cuDeviceGraphMemTrim, device->handle);
	return VG_OK;
}
