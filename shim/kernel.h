// Loads the code of kernels and functions into the current context before their first launch, and charges it. Also
// notes how much local memory the kernels' threads need. CUDA_ERROR_OUT_OF_MEMORY: the limit has no room for the code.
// Any thread.
#pragma once
#include "shim/load_charge.h"

CUresult shim_kernel_load(enum vg_entry entry, CUkernel kernel);
// Loads and charges the code of a kernel whose library is known, like shim_kernel_load().
CUresult shim_kernel_load_from(enum vg_entry entry, CUlibrary library, CUkernel kernel);
CUresult shim_function_load(enum vg_entry entry, CUmodule module, CUfunction function);
