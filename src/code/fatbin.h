// The members of a fatbin. Any thread.
#pragma once
#include <stddef.h>

#include "code/module.h"

// Reads the one that the driver takes on a device of `architecture`: machine code for its generation, the newest that
// it runs, or else PTX, the newest likewise. `ret_modules` has one for each where several are as good; the caller
// finishes them and frees the array. What is packed in a way that is not known here, and code for a linker, is a module
// with a reason and without functions. -EBADMSG: damaged, or it has nothing for such a device; -ENOMEM.
int code_read_fatbin(const void *data, size_t size, unsigned architecture, struct code_module **ret_modules,
		     size_t *ret_count);
