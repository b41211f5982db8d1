// Declares the stream object. Any thread.
#pragma once
#include "core/context.h"
#include "virgate/stream.h"

struct vg_graph_builder;

// Aligned to a cache line: the first line has everything that a launch reads.
struct vg_stream {
	struct core_object object;
	CUstream handle;
	_Atomic(struct vg_graph_builder *) builder; // the builder that captures the stream; NULL: none does
	struct vg_device *device;
	// A launch must first make the stream's context current. True for default streams and for streams of green
	// contexts.
	bool by_context;
	bool borrowed;	// the creator destroys the stream, this object does not
	unsigned flags; // CU_STREAM_…
	int priority;
	struct vg_context *context; // owns a reference
	void *owner;		    // owner of a borrowed stream; passed to `release` at the end
	void (*release)(void *owner);
};

// Creates the object of a driver's stream. On success the object owns the stream, unless it is `borrowed`.
enum vg_status core_stream_wrap(struct vg_context *context, CUstream handle, bool borrowed,
				struct vg_stream **ret_stream);
