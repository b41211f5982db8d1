// A stream, as this room sees it.
#pragma once
#include "core/context.h"
#include "virgate/stream.h"

struct vg_graph_builder;

// Aligned for launches: what they read is in the first line of the processor's cache.
struct vg_stream {
	struct core_object object;
	CUstream handle;
	_Atomic(struct vg_graph_builder *) builder; // that captures what is queued; NULL: it runs
	struct vg_device *device;
	bool by_context; // launches need its context current: default streams, and by precaution those of green ones
	bool borrowed;	 // not ours to destroy
	unsigned flags;	 // CU_STREAM_…
	int priority;
	struct vg_context *context; // held
	void *owner;		    // of a borrowed one, told by `release` when we are done
	void (*release)(void *owner);
};

// Takes the handle over if it succeeds, unless `borrowed`.
enum vg_status core_stream_wrap(struct vg_context *context, CUstream handle, bool borrowed,
				struct vg_stream **ret_stream);
