// A buffer, as this room sees it.
#pragma once
#include "core/object.h"
#include "core/stream.h"
#include "virgate/memory.h"

struct vg_buffer {
	struct core_object object;
	CUdeviceptr address;
	size_t size;
	struct vg_memory_resource *resource; // held; NULL: the address was borrowed
	struct vg_stream *stream;	     // held; where it is freed; NULL: no stream takes part
	void *owner;			     // of a borrowed address; kept until `drop_owner`
	void (*drop_owner)(void *owner);
};
