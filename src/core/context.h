// A context, as this room sees it.
#pragma once
#include "core/device.h"
#include "core/object.h"
#include "virgate/context.h"

struct vg_context {
	struct core_object object;
	struct vg_device *device;
	CUcontext handle;
	CUgreenCtx green; // NULL: an ordinary context
	bool primary;	  // retained, to be released
};
