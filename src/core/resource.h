// A memory resource, as this room sees it. Any thread.
#pragma once
#include "core/error.h"
#include "core/object.h"
#include "core/stream.h"
#include "virgate/memory.h"

struct core_resource_class {
	struct core_class object; // first: what the object's class pointer points to
	bool permanent;		  // lives as long as the process: not to be closed
	bool keeps_notes;	  // cannot free what it did not allocate
	// Whether the stream suits it, for allocation and deallocation; NULL: every stream does.
	enum vg_status (*check)(struct vg_memory_resource *resource, struct vg_stream *stream);
	enum vg_status (*allocate)(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
				   struct vg_allocation *ret_allocation);
	enum vg_status (*deallocate)(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
				     struct vg_stream *stream);
};

struct vg_memory_resource {
	struct core_object object;
	struct vg_memory_properties properties;
	bool needs_stream; // refuses buffers without one
	bool keeps_notes;  // frees only what it allocated itself
};

static inline const struct core_resource_class *core_resource_class(const struct vg_memory_resource *resource)
{
	return (const struct core_resource_class *)resource->object.class;
}

// What vg_buffer_create() and the adaptors do: checks the stream, allocates.
enum vg_status core_resource_allocate(struct vg_memory_resource *resource, size_t size, struct vg_stream *stream,
				      struct vg_allocation *ret_allocation);
// Whether the stream, which may be NULL, or closed by the program, suits the resource.
enum vg_status core_resource_check(struct vg_memory_resource *resource, struct vg_stream *stream);
enum vg_status core_resource_deallocate(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
					struct vg_stream *stream);
// A driver's refusal to give memory, with what was asked and what there is. In the context that was asked.
enum vg_status core_allocation_failed(CUresult result, const char *call, size_t size);

// Whether work on the stream is being captured into a graph, or would spoil a capture of another stream.
enum vg_status core_stream_is_capturing(struct vg_stream *stream, bool *ret_capturing);
// A check for all resources but graphs': a capture has no place for what they do.
enum vg_status core_resource_check_at_once(struct vg_memory_resource *resource, struct vg_stream *stream);
// Waits for what is queued, so that nothing uses memory any more. If the stream failed, nothing does either.
void core_stream_finish(struct vg_stream *stream);
