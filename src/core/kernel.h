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
	void *owner; // of a borrowed kernel; kept until `release`
	void (*release)(void *owner);
	size_t parameter_count;
	size_t parameter_bytes; // of all, padding included
	size_t *offsets, *sizes; // of each; apart, since a launch reads the sizes alone
};

// A kernel of object code, which it holds if that is not NULL. Asks the driver for the parameters.
enum vg_status core_kernel_create(CUkernel handle, struct vg_object_code *code, const char *function,
				  struct vg_kernel **ret_kernel);
