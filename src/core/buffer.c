#include "core/buffer.h"

#include "base/mutex.h"
#include "core/pending.h"
#include "core/resource.h"
#include "core/some_context.h"

#include <stdlib.h>

static struct vg_mutex stream_lock; // protects the member `stream` of every buffer

static enum vg_status close_buffer(struct core_object *object)
{
	struct vg_buffer *buffer = (struct vg_buffer *)object;
	const struct vg_allocation allocation = {buffer->address, buffer->size, buffer->note};

	if (buffer->release)
		buffer->release(buffer->owner);
	core_pending_retry();
	if (!buffer->resource)
		return VG_OK;
	return core_resource_deallocate(buffer->resource, &allocation, buffer->stream);
}

static void free_buffer(struct core_object *object)
{
	struct vg_buffer *buffer = (struct vg_buffer *)object;

	vg_memory_resource_destroy(buffer->resource);
	vg_stream_destroy(buffer->stream);
	free(buffer);
}

static const struct core_class buffer_class = {"buffer", close_buffer, free_buffer};

struct vg_buffer *core_buffer_new(const struct vg_allocation *allocation, struct vg_memory_resource *resource,
				  struct vg_stream *stream)
{
	struct vg_buffer *buffer = calloc(1, sizeof *buffer);

	if (!buffer)
		return NULL;
	core_object_init(&buffer->object, &buffer_class);
	buffer->address = allocation->address;
	buffer->size = allocation->size;
	buffer->note = allocation->user;
	buffer->resource = vg_memory_resource_retain(resource);
	if (stream)
		core_object_retain(&stream->object);
	buffer->stream = stream;
	return buffer;
}

enum vg_status vg_buffer_create(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
				struct vg_buffer **ret_buffer)
{
	VG_ENTRY();
	struct vg_allocation allocation;

	CORE_USABLE(resource, "resource");
	CORE_NEEDED(ret_buffer);
	CORE_TRY(core_resource_allocate(resource, size, stream, &allocation));
	struct vg_buffer *buffer = core_buffer_new(&allocation, resource, stream);
	if (!buffer) {
		core_resource_deallocate(resource, &allocation, stream);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a buffer");
	}
	*ret_buffer = buffer;
	return VG_OK;
}

enum vg_status vg_buffer_borrow(vg_address address, size_t size, const struct vg_buffer_borrow_options *options,
				struct vg_buffer **ret_buffer)
{
	VG_ENTRY();
	struct vg_buffer_borrow_options o;

	CORE_NEEDED(ret_buffer);
	CORE_OPTIONS(o, options);
	if (o.resource && (o.owner || o.release))
		return vg_fail(VG_INVALID, 0,
			       "resource and owner cannot be both given: either the resource frees the memory, or its "
			       "owner does");
	if (o.resource)
		CORE_USABLE(o.resource, "resource");
	if (o.stream)
		CORE_USABLE(o.stream, "stream");
	if (size && (!address || size - 1 > UINT64_MAX - address))
		return vg_fail(VG_INVALID, 0, "%zu bytes at 0x%llx: there is no such memory", size,
			       (unsigned long long)address);
	if (o.resource && o.resource->keeps_notes)
		return vg_fail(VG_INVALID, 0, "a %s frees only what it allocated itself: use vg_buffer_create()",
			       vg_memory_resource_name(o.resource));
	if (o.resource && o.resource->needs_stream && !o.stream)
		return vg_fail(VG_INVALID, 0, "options.stream is NULL: a %s frees in the order of a stream",
			       vg_memory_resource_name(o.resource));
	CORE_TRY(core_open()); // for vg_buffer_properties()
	struct vg_buffer *buffer = core_buffer_new(&(struct vg_allocation){address, size, NULL}, o.resource, o.stream);
	if (!buffer)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a buffer");
	buffer->owner = o.owner;
	buffer->release = o.release;
	*ret_buffer = buffer;
	return VG_OK;
}

void vg_buffer_destroy(struct vg_buffer *buffer)
{
	core_object_release(buffer ? &buffer->object : NULL);
}

struct vg_buffer *vg_buffer_retain(struct vg_buffer *buffer)
{
	if (buffer)
		core_object_retain(&buffer->object);
	return buffer;
}

static void change_stream(struct vg_buffer *buffer, struct vg_stream *stream)
{
	core_object_retain(&stream->object);
	vg_mutex_lock(&stream_lock);
	struct vg_stream *before = buffer->stream;
	buffer->stream = stream;
	vg_mutex_unlock(&stream_lock);
	vg_stream_destroy(before);
}

struct vg_stream *core_buffer_retain_stream(const struct vg_buffer *buffer)
{
	vg_mutex_lock(&stream_lock);
	struct vg_stream *stream = buffer->stream;
	if (stream)
		core_object_retain(&stream->object);
	vg_mutex_unlock(&stream_lock);
	return stream;
}

enum vg_status vg_buffer_set_deallocation_stream(struct vg_buffer *buffer, struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_USABLE(buffer, "buffer");
	CORE_USABLE(stream, "stream");
	change_stream(buffer, stream);
	return VG_OK;
}

enum vg_status vg_buffer_close(struct vg_buffer *buffer, struct vg_stream *stream)
{
	VG_ENTRY();
	CORE_NEEDED(buffer);
	if (atomic_load(&buffer->object.closed))
		return VG_OK;
	// Check everything before changing anything.
	if (stream)
		CORE_USABLE(stream, "stream");
	if (buffer->resource && buffer->address) {
		struct vg_stream *own = stream ? NULL : core_buffer_retain_stream(buffer);
		enum vg_status status = core_resource_check(buffer->resource, stream ? stream : own);
		vg_stream_destroy(own);
		if (status)
			return status;
	}
	if (stream)
		change_stream(buffer, stream);
	return core_object_close(&buffer->object);
}

// ---- properties ---------------------------------------------------------------------------------

static bool is_open(const struct vg_buffer *buffer)
{
	return buffer && !atomic_load_explicit(&buffer->object.closed, memory_order_relaxed);
}

vg_address vg_buffer_address(const struct vg_buffer *buffer)
{
	return is_open(buffer) ? buffer->address : 0;
}

size_t vg_buffer_size(const struct vg_buffer *buffer)
{
	return is_open(buffer) ? buffer->size : 0;
}

struct vg_memory_resource *vg_buffer_memory_resource(const struct vg_buffer *buffer)
{
	return is_open(buffer) ? buffer->resource : NULL;
}

void *vg_buffer_owner(const struct vg_buffer *buffer)
{
	return is_open(buffer) ? buffer->owner : NULL;
}

int vg_buffer_is_mapped(const struct vg_buffer *buffer)
{
	return is_open(buffer) && buffer->mapped;
}

int vg_buffer_equal(const struct vg_buffer *buffer, const struct vg_buffer *other)
{
	return is_open(buffer) && is_open(other) && buffer->address == other->address && buffer->size == other->size;
}

uint64_t vg_buffer_hash(const struct vg_buffer *buffer)
{
	// Addresses end in zeros: multiplications by odd constants mix the high bits, and shifts bring them down.
	uint64_t hash = vg_buffer_address(buffer) * 0x9e3779b97f4a7c15 ^ vg_buffer_size(buffer);

	hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93;
	return hash ^ hash >> 32;
}

enum vg_status vg_buffer_properties(const struct vg_buffer *buffer, struct vg_memory_properties *ret_properties)
{
	VG_ENTRY();
	CUmemorytype type = 0;
	unsigned managed = 0; // documented as a Boolean, but the driver writes four bytes
	int device = -1;
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
					    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	void *answers[] = {&type, &managed, &device};

	CORE_USABLE(buffer, "buffer");
	CORE_NEEDED(ret_properties);
	if (buffer->resource) {
		*ret_properties = buffer->resource->properties;
		return VG_OK;
	}
	// For memory of a host pool, the driver reports the device of the current context. So keep the thread's
	// context, or make an active primary context current.
	__attribute__((cleanup(core_leave_some))) struct core_some_context some;
	CUresult r = core_enter_active(&some);
	if (r)
		return core_driver_failed(r, "cuDevicePrimaryCtxRetain", "%s", "");
	CORE_CALL(cuPointerGetAttributes, 3, attributes, answers, buffer->address);
	// A type of 0 means that the driver does not know the memory, so it is ordinary host memory.
	bool device_memory = type == CU_MEMORYTYPE_DEVICE && !managed;
	*ret_properties = (struct vg_memory_properties){.device = type ? device : -1,
							.device_accessible = type != 0,
							.host_accessible = !device_memory,
							.managed = managed != 0};
	return VG_OK;
}
