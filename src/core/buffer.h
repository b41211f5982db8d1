// A buffer, as this room sees it.
#pragma once
#include "core/object.h"
#include "core/stream.h"
#include "virgate/memory.h"

struct vg_buffer {
	struct core_object object;
	CUdeviceptr address;
	size_t size;
	void *note;			     // the resource's, for its deallocate
	struct vg_memory_resource *resource; // held; NULL: the address was borrowed
	struct vg_stream *stream;	     // held; where it is freed; NULL: no stream takes part; under a lock
	bool mapped;			     // imported from another process
	void *owner;			     // of a borrowed address; kept until `release`
	void (*release)(void *owner);
};

// A buffer of memory that the resource gave; takes the resource's and the stream's references itself. NULL: no
// memory on the host, and the allocation is still the caller's.
struct vg_buffer *core_buffer_new(const struct vg_allocation *allocation, struct vg_memory_resource *resource,
				  struct vg_stream *stream);
// A reference to the stream on which the buffer will be freed, or NULL: another thread may change it meanwhile.
struct vg_stream *core_buffer_hold_stream(const struct vg_buffer *buffer);
