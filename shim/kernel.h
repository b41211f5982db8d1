// Loads the code of kernels and functions into the current context before their first launch, charges it, and notes how
// much local memory their threads need. CUDA_ERROR_OUT_OF_MEMORY: the limit has no room for the code. Any thread.
#pragma once
#include "shim/load_charge.h"

CUresult shim_kernel_load(enum vg_entry entry, CUkernel kernel);
// Does the same for a kernel whose library is known.
CUresult shim_kernel_load_from(enum vg_entry entry, CUlibrary library, CUkernel kernel);
CUresult shim_function_load(enum vg_entry entry, CUmodule module, CUfunction function);
