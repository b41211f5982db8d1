// Charges of modules and libraries: what loading them took from the device, as measured. Any thread.
#pragma once
#include "shim/charge.h"

enum { SHIM_LOAD_UNMEASURED = -1 };

// Before a call that may load code: returns the level from which shim_load_end() measures.
int64_t shim_load_begin(void);
// After the call: charges what it took. CUDA_ERROR_OUT_OF_MEMORY: the limit has no room. Then a module or library of
// which the program has only the handle is unloaded.
CUresult shim_load_end(enum vg_entry entry, enum shim_record_type type, void *handle, int64_t before);
// Does the same after a call that returned a new handle, with `result`.
CUresult shim_load_finish(enum vg_entry entry, enum shim_record_type type, CUresult result, void *handle,
			  int64_t before);
// Notes that the program got a handle or an address of the code, so it cannot be unloaded any more.
void shim_load_note_use(enum shim_record_type type, void *handle);
// Before the program asks for more of the code. CUDA_ERROR_OUT_OF_MEMORY: it was unloaded because it did not fit, or
// other code that did not fit leaves no room.
CUresult shim_load_check(enum vg_entry entry, enum shim_record_type type, void *handle);
// Refuses if the process has more undeclared memory than the limit has room for.
CUresult shim_load_check_room(enum vg_entry entry);
// Unloads a module or library and refunds its charge.
CUresult shim_load_unload(enum shim_record_type type, void *handle);
