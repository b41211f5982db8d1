// A stream, as this room sees it.
#pragma once
#include "core/context.h"
#include "virgate/stream.h"

struct vg_stream {
	struct core_object object;
	struct vg_context *context; // held
	CUstream handle;
	bool borrowed; // not ours to destroy
};
