// A stream, as this room sees it.
#pragma once
#include "core/context.h"
#include "virgate/stream.h"

struct vg_graph_builder;

struct vg_stream {
	struct core_object object;
	struct vg_context *context; // held
	CUstream handle;
	unsigned flags; // CU_STREAM_…
	int priority;
	bool borrowed; // not ours to destroy
	void *owner;   // of a borrowed one, told by `release` when we are done
	void (*release)(void *owner);
	_Atomic(struct vg_graph_builder *) builder; // that captures what is queued; NULL: it runs
};

// Takes the handle over if it succeeds, unless `borrowed`.
enum vg_status core_stream_wrap(struct vg_context *context, CUstream handle, bool borrowed, const char *function,
				struct vg_stream **ret_stream);
