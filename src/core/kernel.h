// A kernel, as this room sees it.
#pragma once
#include "core/context.h"
#include "core/object.h"
#include "virgate/kernel.h"

struct vg_object_code;

struct vg_kernel {
	struct core_object object;
	struct vg_object_code *code; // held; NULL: borrowed from somebody else's library
	CUkernel handle;
	unsigned int parameter_count;
	size_t parameter_bytes; // of all, padding included
	struct core_parameter {
		size_t offset, size;
	} *parameters;
};
