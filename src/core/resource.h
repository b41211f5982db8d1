// Declares the memory resource object. Any thread.
#pragma once
#include "core/error.h"
#include "core/object.h"
#include "core/stream.h"
#include "virgate/memory.h"

struct core_resource_class {
	struct core_class object; // must be the first member, because the object's class pointer points to it
	bool permanent;		  // the resource lives as long as the process, and is never closed
	// Checks a stream (not NULL) for an allocation or a deallocation. May be NULL.
	enum vg_status (*check)(struct vg_memory_resource *resource, struct vg_stream *stream);
	enum vg_status (*allocate)(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
				   struct vg_allocation *ret_allocation);
	enum vg_status (*deallocate)(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
				     struct vg_stream *stream);
};

struct vg_memory_resource {
	struct core_object object;
	struct vg_memory_properties properties;
	bool needs_stream; // the resource rejects buffers without a stream
	bool keeps_notes;  // the resource keeps records of its allocations, and can free only these
};

static inline const struct core_resource_class *core_resource_class(const struct vg_memory_resource *resource)
{
	return (const struct core_resource_class *)resource->object.class;
}

// Checks the stream and allocates memory. Used by vg_buffer_create() and the adaptors.
enum vg_status core_resource_allocate(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
				      struct vg_allocation *ret_allocation);
// Checks that a stream suits the resource. `stream` may be NULL, or closed by the program.
enum vg_status core_resource_check(struct vg_memory_resource *resource, struct vg_stream *stream);
enum vg_status core_resource_deallocate(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
					struct vg_stream *stream);
// Sets the error of a failed allocation, with the requested and the available amount. Call with the allocation's
// context current.
enum vg_status core_allocation_failed(CUresult result, const char *call, size_t size);

// Finds out whether work on the stream would be captured into a graph. *ret_capturing is also true if work on the
// stream would invalidate the capture of another stream.
enum vg_status core_stream_is_capturing(struct vg_stream *stream, bool *ret_capturing);
// Returns STATE if the stream is being captured. All resources but those of graphs use this as their `check`.
enum vg_status core_resource_refuse_capture(struct vg_memory_resource *resource, struct vg_stream *stream);
// Waits for the work on the stream, so that no work uses its memory any more. A stream in an error state counts as
// idle.
void core_stream_wait(struct vg_stream *stream);
