#include "core/resource.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

// ---- all resources ------------------------------------------------------------------------------

enum vg_status core_stream_is_capturing(struct vg_stream *stream, bool *ret_capturing)
{
	CUstreamCaptureStatus capture;
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, stream->context->handle);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuStreamIsCapturing(stream->handle, &capture);
	// The legacy stream cannot be captured. But other streams wait for the legacy stream. If such a stream is being
	// captured, work on the legacy stream invalidates that capture.
	if (r == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
		core_log_skip();
		*ret_capturing = true;
		return VG_OK;
	}
	if (r)
		return core_driver_failed(r, "cuStreamIsCapturing", "%s", "");
	*ret_capturing = capture != CU_STREAM_CAPTURE_STATUS_NONE;
	return VG_OK;
}

enum vg_status core_resource_refuse_capture(struct vg_memory_resource *resource, struct vg_stream *stream)
{
	bool capturing;

	enum vg_status status = core_stream_is_capturing(stream, &capturing);
	if (status || !capturing)
		return status;
	return vg_fail(
		VG_STATE, 0,
		"a %s cannot perform memory operations on a capturing stream (consider the graph memory resource)",
		vg_memory_resource_name(resource));
}

void core_stream_wait(struct vg_stream *stream)
{
	CORE_SCOPE scope = {false};

	if (core_enter(&scope, stream->context->handle) == CUDA_SUCCESS)
		(void)core_driver->cuStreamSynchronize(stream->handle);
}

enum vg_status core_allocation_failed(CUresult result, const char *call, size_t size)
{
	char asked[VG_SIZE_TEXT], available[VG_SIZE_TEXT], all[VG_SIZE_TEXT];
	size_t unused, total;

	vg_size_format(size, asked);
	if (result != CUDA_ERROR_OUT_OF_MEMORY || core_driver->cuMemGetInfo_v2(&unused, &total) != CUDA_SUCCESS)
		return core_driver_failed(result, call, "asked for %s", asked);
	return core_driver_failed(result, call, "asked for %s, %s of the device's %s are free", asked,
				  vg_size_format(unused, available), vg_size_format(total, all));
}

enum vg_status core_resource_check(struct vg_memory_resource *resource, struct vg_stream *stream)
{
	const struct core_resource_class *class = core_resource_class(resource);

	if (!stream && resource->needs_stream)
		return vg_fail(VG_INVALID, 0, "stream is NULL: a %s allocates and frees in the order of a stream",
			       vg_memory_resource_name(resource));
	return stream && class->check ? class->check(resource, stream) : VG_OK;
}

enum vg_status core_resource_allocate(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
				      struct vg_allocation *ret_allocation)
{
	struct vg_allocation allocation = {.size = size};

	if (stream)
		CORE_USABLE(stream, "stream");
	CORE_TRY(core_resource_check(resource, stream));
	CORE_TRY(core_resource_class(resource)->allocate(resource, size, stream, &allocation));
	*ret_allocation = allocation;
	return VG_OK;
}

enum vg_status core_resource_deallocate(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
					struct vg_stream *stream)
{
	return core_resource_class(resource)->deallocate(resource, allocation, stream);
}

void vg_memory_resource_destroy(struct vg_memory_resource *resource)
{
	core_object_release(resource ? &resource->object : NULL);
}

enum vg_status vg_memory_resource_close(struct vg_memory_resource *resource)
{
	VG_ENTRY();
	CORE_NEEDED(resource);
	if (core_resource_class(resource)->permanent)
		return VG_OK;
	return core_object_close(&resource->object);
}

struct vg_memory_resource *vg_memory_resource_retain(struct vg_memory_resource *resource)
{
	if (resource)
		core_object_retain(&resource->object);
	return resource;
}

enum vg_status vg_memory_resource_properties(const struct vg_memory_resource *resource,
					     struct vg_memory_properties *ret_properties)
{
	VG_ENTRY();
	CORE_USABLE(resource, "resource");
	CORE_NEEDED(ret_properties);
	*ret_properties = resource->properties;
	return VG_OK;
}

// ---- resources of programs ----------------------------------------------------------------------

struct custom {
	struct vg_memory_resource resource;
	struct vg_memory_resource_operations operations;
	void *user;
	char name[]; // storage for operations.name
};

// Returns the status that the program's own allocation function returned. Sets an error if that function failed without
// setting one.
static enum vg_status check_result(enum vg_status status, const char *name, const char *what, size_t size)
{
	char bytes[VG_SIZE_TEXT];

	if (status == VG_OK || vg_last_error()->status == status)
		return status;
	return vg_fail(status, 0, "%s: %s %s: %s", name, what, vg_size_format(size, bytes), vg_status_text(status));
}

static enum vg_status custom_allocate(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
				      struct vg_allocation *ret_allocation)
{
	struct custom *custom = (struct custom *)resource;
	struct vg_allocation allocation = {.size = size};

	vg_fail(VG_OK, 0, "%s", "");
	enum vg_status status = custom->operations.allocate(custom->user, size, stream, &allocation);
	if (status)
		return check_result(status, custom->name, "could not allocate", size);
	if (allocation.size < size || (size && !allocation.address)) {
		custom->operations.deallocate(custom->user, &allocation, stream);
		return vg_fail(VG_INVALID, 0, "%s returned %zu bytes at 0x%llx, and %zu were asked for", custom->name,
			       allocation.size, (unsigned long long)allocation.address, size);
	}
	*ret_allocation = allocation;
	return VG_OK;
}

static enum vg_status custom_deallocate(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
					struct vg_stream *stream)
{
	struct custom *custom = (struct custom *)resource;

	vg_fail(VG_OK, 0, "%s", "");
	return check_result(custom->operations.deallocate(custom->user, allocation, stream), custom->name,
			    "could not free", allocation->size);
}

static enum vg_status custom_close(struct core_object *object)
{
	struct custom *custom = (struct custom *)object;

	if (custom->operations.destroy)
		custom->operations.destroy(custom->user);
	return VG_OK;
}

static void custom_free(struct core_object *object)
{
	free(object);
}

static const struct core_resource_class custom_class = {.object = {"memory resource", custom_close, custom_free},
							.allocate = custom_allocate,
							.deallocate = custom_deallocate};

const char *vg_memory_resource_name(const struct vg_memory_resource *resource)
{
	if (!resource)
		return "";
	if (core_resource_class(resource)->allocate == custom_allocate)
		return ((const struct custom *)resource)->name;
	return resource->object.class->name;
}

enum vg_status vg_memory_resource_create(const struct vg_memory_resource_operations *operations, void *user,
					 struct vg_memory_resource **ret_resource)
{
	VG_ENTRY();
	struct vg_memory_resource_operations o;

	CORE_NEEDED(operations);
	CORE_NEEDED(ret_resource);
	CORE_OPTIONS(o, operations);
	if (!o.name || !o.name[0] || !o.allocate || !o.deallocate)
		return vg_fail(VG_INVALID, 0, "a memory resource needs a name, allocate and deallocate; %s is missing",
			       !o.name || !o.name[0] ? "the name"
			       : !o.allocate	     ? "allocate"
						     : "deallocate");
	struct custom *custom = calloc(1, sizeof *custom + strlen(o.name) + 1);
	if (!custom)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a memory resource");
	core_object_init(&custom->resource.object, &custom_class.object);
	custom->resource.properties = o.properties;
	custom->resource.needs_stream = o.needs_stream;
	custom->operations = o;
	custom->user = user;
	strcpy(custom->name, o.name);
	custom->operations.name = custom->name;
	*ret_resource = &custom->resource;
	return VG_OK;
}
