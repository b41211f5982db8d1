#include "virgate/graphics.h"

#include "base/mutex.h"
#include "core/buffer.h"
#include "core/context.h"
#include "core/error.h"
#include "core/stream.h"

#include <stdlib.h>

struct vg_graphics_resource {
	struct core_object object;
	struct vg_context *context; // owns a reference
	CUgraphicsResource handle;
	bool image;
	struct vg_mutex lock; // protects the members below; held during the driver calls that change them
	bool mapped;
	struct vg_stream *stream; // the stream on which the resource was mapped; owns a reference while mapped
	struct vg_buffer *buffer; // buffer of the mapping; the buffer retains the resource, not the reverse
};

static enum vg_status unmap_locked(struct vg_graphics_resource *resource, struct vg_stream *stream)
{
	CUstream handle = (stream ? stream : resource->stream)->handle;

	CORE_ENTER(scope, resource->context->handle);
	CUresult r = core_driver->cuGraphicsUnmapResources(1, &resource->handle, handle);
	if (r)
		return core_driver_failed(r, "cuGraphicsUnmapResources", "%s", "");
	if (resource->buffer) // close the buffer: its memory is not mapped any more
		atomic_store(&resource->buffer->object.closed, true);
	resource->mapped = false;
	resource->buffer = NULL;
	vg_stream_destroy(resource->stream);
	resource->stream = NULL;
	return VG_OK;
}

static enum vg_status unregister_locked(struct vg_graphics_resource *resource, struct vg_stream *stream)
{
	CORE_TRY(resource->mapped ? unmap_locked(resource, stream) : VG_OK);
	CORE_ENTER(scope, resource->context->handle);
	CUresult r = core_driver->cuGraphicsUnregisterResource(resource->handle);
	if (r)
		return core_driver_failed(r, "cuGraphicsUnregisterResource", "%s", "");
	resource->handle = NULL;
	return VG_OK;
}

static enum vg_status close_resource(struct core_object *object)
{
	struct vg_graphics_resource *resource = (struct vg_graphics_resource *)object;

	vg_mutex_lock(&resource->lock);
	enum vg_status status = resource->handle ? unregister_locked(resource, NULL) : VG_OK;
	vg_mutex_unlock(&resource->lock);
	return status;
}

static void free_resource(struct core_object *object)
{
	struct vg_graphics_resource *resource = (struct vg_graphics_resource *)object;

	vg_stream_destroy(resource->stream);
	core_object_release(&resource->context->object);
	free(resource);
}

static const struct core_class graphics_class = {"graphics resource", close_resource, free_resource};

static bool find_entry(const char *name, void **ret_entry)
{
	CUdriverProcAddressQueryResult found;

	*ret_entry = NULL;
	return core_asked(core_driver->cuGetProcAddress_v2(name, ret_entry, 3000, CU_GET_PROC_ADDRESS_DEFAULT,
							   &found)) == CUDA_SUCCESS &&
	       *ret_entry;
}

static enum vg_status check_flags(unsigned flags)
{
	const unsigned known = VG_GRAPHICS_READ_ONLY | VG_GRAPHICS_WRITE_DISCARD | VG_GRAPHICS_SURFACE_LOAD_STORE |
			       VG_GRAPHICS_TEXTURE_GATHER;

	return flags & ~known ? vg_fail(VG_INVALID, 0, "flags 0x%x: unknown register flag 0x%x", flags, flags & ~known)
			      : VG_OK;
}

static enum vg_status create_resource(struct vg_context *context, bool image,
				      struct vg_graphics_resource **ret_resource)
{
	struct vg_graphics_resource *resource = calloc(1, sizeof *resource);

	if (!resource)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a graphics resource");
	core_object_init(&resource->object, &graphics_class);
	core_object_retain(&context->object);
	resource->context = context;
	resource->image = image;
	*ret_resource = resource;
	return VG_OK;
}

// Creates a resource without a handle, and finds the driver function that registers it.
static enum vg_status prepare_resource(struct vg_context *context, unsigned flags, const char *entry, void *ret_entry,
				       bool image, struct vg_graphics_resource **ret_resource)
{
	CORE_TRY(check_flags(flags));
	if (!find_entry(entry, ret_entry))
		return vg_fail(VG_UNSUPPORTED, 0, "the driver has no %s", entry);
	return create_resource(context, image, ret_resource);
}

enum vg_status vg_graphics_resource_of_gl_buffer(struct vg_context *context, unsigned buffer, unsigned flags,
						 struct vg_graphics_resource **ret_resource)
{
	VG_ENTRY();
	CUresult(CUDAAPI * enroll)(CUgraphicsResource *, unsigned int, unsigned int);
	struct vg_graphics_resource *resource;

	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_resource);
	CORE_ENTER(scope, context->handle);
	CORE_TRY(prepare_resource(context, flags, "cuGraphicsGLRegisterBuffer", &enroll, false, &resource));
	CUresult r = enroll(&resource->handle, buffer, flags);
	if (r) {
		vg_graphics_resource_destroy(resource);
		return core_driver_failed(r, "cuGraphicsGLRegisterBuffer", "buffer %u", buffer);
	}
	*ret_resource = resource;
	return VG_OK;
}

enum vg_status vg_graphics_resource_of_gl_image(struct vg_context *context, unsigned image, unsigned target,
						unsigned flags, struct vg_graphics_resource **ret_resource)
{
	VG_ENTRY();
	CUresult(CUDAAPI * enroll)(CUgraphicsResource *, unsigned int, unsigned int, unsigned int);
	struct vg_graphics_resource *resource;

	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_resource);
	CORE_ENTER(scope, context->handle);
	CORE_TRY(prepare_resource(context, flags, "cuGraphicsGLRegisterImage", &enroll, true, &resource));
	CUresult r = enroll(&resource->handle, image, target, flags);
	if (r) {
		vg_graphics_resource_destroy(resource);
		return core_driver_failed(r, "cuGraphicsGLRegisterImage", "image %u, target 0x%x", image, target);
	}
	*ret_resource = resource;
	return VG_OK;
}

static enum vg_status map_locked(struct vg_graphics_resource *resource, struct vg_stream *stream)
{
	if (!resource->handle)
		return vg_fail(VG_CLOSED, 0, "the graphics resource has been closed");
	if (resource->mapped)
		return vg_fail(VG_STATE, 0, "the graphics resource is already mapped: unmap it first");
	CUresult r = core_driver->cuGraphicsMapResources(1, &resource->handle, stream->handle);
	if (r)
		return core_driver_failed(r, "cuGraphicsMapResources", "%s", "");
	core_object_retain(&stream->object);
	resource->stream = stream;
	resource->mapped = true;
	return VG_OK;
}

// Undoes a mapping after a failure. Keeps the last error.
static void undo_map_locked(struct vg_graphics_resource *resource)
{
	if (core_driver->cuGraphicsUnmapResources(1, &resource->handle, resource->stream->handle))
		return;
	resource->mapped = false;
	vg_stream_destroy(resource->stream);
	resource->stream = NULL;
}

// Fails: the memory resource of a mapped buffer cannot allocate. Its deallocate function unmaps the graphics resource.
static enum vg_status refuse_allocation(void *user, size_t size, struct vg_stream *stream,
					struct vg_allocation *ret_allocation)
{
	return vg_fail(VG_UNSUPPORTED, 0, "a graphics resource has no memory but the mapped buffer's");
}

static enum vg_status unmap_buffer(void *user, const struct vg_allocation *allocation, struct vg_stream *stream)
{
	struct vg_graphics_resource *resource = user;
	enum vg_status status = VG_OK;

	vg_mutex_lock(&resource->lock);
	// The program may have unmapped the resource and mapped it again since this buffer was created. Then the
	// mapping belongs to another buffer, and stays.
	if (resource->buffer && resource->buffer->address == allocation->address && resource->buffer->object.released)
		status = unmap_locked(resource, stream);
	// After a failure the resource is still mapped, but the buffer may be freed before unmapping is tried again. So
	// forget the buffer.
	if (status)
		resource->buffer = NULL;
	vg_mutex_unlock(&resource->lock);
	return status;
}

static void release_resource(void *user)
{
	core_object_release(user);
}

static enum vg_status wrap_locked(struct vg_graphics_resource *resource, struct vg_buffer **ret_buffer)
{
	static const struct vg_memory_resource_operations operations = {
		.size = sizeof operations,
		.name = "graphics mapping",
		.allocate = refuse_allocation,
		.deallocate = unmap_buffer,
		.destroy = release_resource,
		.needs_stream = 1,
	};
	struct vg_memory_resource_operations own = operations;
	struct vg_memory_resource *memory;
	CUdeviceptr address;
	size_t size;

	CUresult r = core_driver->cuGraphicsResourceGetMappedPointer_v2(&address, &size, resource->handle);
	if (r)
		return core_driver_failed(r, "cuGraphicsResourceGetMappedPointer", "%s", "");
	own.properties = (struct vg_memory_properties){.device = vg_device_ordinal(resource->context->device),
						       .device_accessible = 1};
	CORE_TRY(vg_memory_resource_create(&own, resource, &memory));
	core_object_retain(&resource->object);
	struct vg_buffer_borrow_options options = {
		.size = sizeof options, .resource = memory, .stream = resource->stream};
	enum vg_status status = vg_buffer_borrow(address, size, &options, &resource->buffer);
	vg_memory_resource_destroy(memory);
	if (status)
		return status;
	*ret_buffer = resource->buffer;
	return VG_OK;
}

enum vg_status vg_graphics_resource_map(struct vg_graphics_resource *resource, struct vg_stream *stream,
					struct vg_buffer **ret_buffer)
{
	VG_ENTRY();
	CORE_USABLE(resource, "resource");
	CORE_USABLE(stream, "stream");
	CORE_NEEDED(ret_buffer);
	if (resource->image)
		return vg_fail(VG_UNSUPPORTED, 0, "an image has no address: use vg_graphics_resource_map_array()");
	CORE_ENTER(scope, resource->context->handle);
	vg_mutex_lock(&resource->lock);
	enum vg_status status = map_locked(resource, stream);
	if (status == VG_OK) {
		status = wrap_locked(resource, ret_buffer);
		if (status)
			undo_map_locked(resource);
	}
	vg_mutex_unlock(&resource->lock);
	return status;
}

enum vg_status vg_graphics_resource_map_array(struct vg_graphics_resource *resource, struct vg_stream *stream,
					      unsigned layer, unsigned level, struct CUarray_st **ret_array)
{
	VG_ENTRY();
	CORE_USABLE(resource, "resource");
	CORE_USABLE(stream, "stream");
	CORE_NEEDED(ret_array);
	if (!resource->image)
		return vg_fail(VG_UNSUPPORTED, 0, "a buffer is no array: use vg_graphics_resource_map()");
	CORE_ENTER(scope, resource->context->handle);
	vg_mutex_lock(&resource->lock);
	enum vg_status status = map_locked(resource, stream);
	if (status == VG_OK) {
		CUresult r =
			core_driver->cuGraphicsSubResourceGetMappedArray(ret_array, resource->handle, layer, level);
		if (r) {
			status = core_driver_failed(r, "cuGraphicsSubResourceGetMappedArray", "layer %u, level %u",
						    layer, level);
			undo_map_locked(resource);
		}
	}
	vg_mutex_unlock(&resource->lock);
	return status;
}

enum vg_status vg_graphics_resource_unmap(struct vg_graphics_resource *resource, struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_USABLE(resource, "resource");
	if (stream)
		CORE_USABLE(stream, "stream");
	vg_mutex_lock(&resource->lock);
	enum vg_status status = resource->mapped ? unmap_locked(resource, stream)
						 : vg_fail(VG_STATE, 0, "the graphics resource is not mapped");
	vg_mutex_unlock(&resource->lock);
	return status;
}

enum vg_status vg_graphics_resource_close(struct vg_graphics_resource *resource, struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_NEEDED(resource);
	if (stream)
		CORE_USABLE(stream, "stream");
	vg_mutex_lock(&resource->lock);
	enum vg_status status = resource->handle ? unregister_locked(resource, stream) : VG_OK;
	vg_mutex_unlock(&resource->lock);
	return status ? status : core_object_close(&resource->object);
}

void vg_graphics_resource_destroy(struct vg_graphics_resource *resource)
{
	core_object_release(resource ? &resource->object : NULL);
}

int vg_graphics_resource_is_mapped(struct vg_graphics_resource *resource)
{
	if (!resource)
		return 0;
	vg_mutex_lock(&resource->lock);
	bool mapped = resource->mapped;
	vg_mutex_unlock(&resource->lock);
	return mapped;
}

struct CUgraphicsResource_st *vg_graphics_resource_handle(const struct vg_graphics_resource *resource)
{
	return resource ? resource->handle : NULL;
}
