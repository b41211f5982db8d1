// What modules and libraries take from the device: overhead, charged as measured. Any thread.
#pragma once
#include "shim/charge.h"

// Before a call that may load something: what to measure it by.
int64_t shim_load_begin(void);
// After it: charges what the call took. CUDA_ERROR_OUT_OF_MEMORY: the quota has no room for it; a
// library, or module, of which nothing was handed out yet has been unloaded.
CUresult shim_load_end(enum vg_entry entry, enum shim_what what, void *handle, int64_t before);
// A handle or an address out of it was given to the program: it cannot be unloaded behind its back.
void shim_load_used(enum shim_what what, void *handle);
// Before it is asked for more of it. CUDA_ERROR_OUT_OF_MEMORY if it was unloaded because it did not
// fit, or what did not fit and could not be unloaded leaves no room for more.
CUresult shim_load_check(enum vg_entry entry, enum shim_what what, void *handle);
