// Reads a fatbin: a container whose members have the same code for different architectures. Any thread.
#pragma once
#include <stddef.h>

#include "code/module.h"

// Reads the member that the driver would choose on a device of `architecture`: the newest machine code that the device
// can run, or else the newest PTX. If several members are equally suitable, *ret_modules has one module for each. The
// caller finishes the modules and frees the array. A member that still needs linking becomes a module without
// functions, whose `reason` says so. Returns 0; -EBADMSG: invalid fatbin, or no member for the device; -ENOMEM.
int code_read_fatbin(const void *data, size_t size, unsigned architecture, struct code_module **ret_modules,
		     size_t *ret_count);
