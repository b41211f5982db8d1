// The members of a fatbin. Any thread.
#pragma once
#include <stddef.h>

#include "code/module.h"

// Reads the member that the driver chooses on a device of `architecture`: the newest machine code for its generation
// that the device can run, or else the newest PTX. If several are equal, *ret_modules has one module for each. The
// caller finishes them and frees the array. Code for a linker becomes a module with a reason and without functions.
// Returns 0; -EBADMSG: invalid, or no member for such a device; -ENOMEM.
int code_read_fatbin(const void *data, size_t size, unsigned architecture, struct code_module **ret_modules,
		     size_t *ret_count);
