// Charges modules and libraries for the device memory that loading them took, as measured. Any thread.
#pragma once
#include "shim/charge.h"

enum { SHIM_LOAD_UNMEASURED = -1 };

// Returns the free device memory plus what the vGPU is charged. Call it before a driver call that may load code, and
// pass the result to shim_load_end().
int64_t shim_load_begin(void);
// Charges the device memory that the driver call took. CUDA_ERROR_OUT_OF_MEMORY: the limit has no room. The module or
// library is then unloaded, if the program has nothing but its handle.
CUresult shim_load_end(enum vg_entry entry, enum shim_record_type type, void *handle, int64_t before);
// Charges as shim_load_end() does, if the driver call succeeded. `result` is what the driver call returned; `handle` is
// the new module or library.
CUresult shim_load_finish(enum vg_entry entry, enum shim_record_type type, CUresult result, void *handle,
			  int64_t before);
// Notes that the program got a handle or an address inside the code, so the code cannot be unloaded any more.
void shim_load_note_use(enum shim_record_type type, void *handle);
// Checks whether the program may get another handle or address inside the code. CUDA_ERROR_OUT_OF_MEMORY: this code was
// unloaded because it did not fit, or other code that did not fit has used up the limit.
CUresult shim_load_check(enum vg_entry entry, enum shim_record_type type, void *handle);
// Fails if the process has more undeclared memory than the limit has room for.
CUresult shim_load_check_room(enum vg_entry entry);
// Unloads a module or library and refunds its charge.
CUresult shim_load_unload(enum shim_record_type type, void *handle);
