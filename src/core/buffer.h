// Declares the buffer object: an allocation, and the memory resource that frees it. Any thread.
#pragma once
#include "core/object.h"
#include "core/stream.h"
#include "virgate/memory.h"

struct vg_buffer {
	struct core_object object;
	CUdeviceptr address;
	size_t size;
	void *note;			     // vg_allocation.user, passed to the resource's deallocate
	struct vg_memory_resource *resource; // owns a reference; NULL: the address was borrowed
	// The buffer's memory is freed in the order of this stream. NULL: the buffer has no stream. Owns a reference. A
	// lock in buffer.c protects this member.
	struct vg_stream *stream;
	bool mapped; // the buffer was imported from another process
	void *owner; // owner of a borrowed address; passed to `release` at the end
	void (*release)(void *owner);
};

// Creates the buffer of an allocation, and retains the resource and the stream. Returns NULL if out of host memory;
// then the caller still owns the allocation.
struct vg_buffer *core_buffer_new(const struct vg_allocation *allocation, struct vg_memory_resource *resource,
				  struct vg_stream *stream);
// Returns a new reference to the stream on which the buffer will be freed, or NULL. Another thread may change the
// buffer's stream meanwhile.
struct vg_stream *core_buffer_retain_stream(const struct vg_buffer *buffer);
