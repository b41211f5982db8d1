// Functions, kernels and variables as the program asks for them. Any thread.
#pragma once
#include "shim/charge.h"

// Loads the kernel into the current context, as its first launch would, and charges for that; notes what
// its threads need. CUDA_ERROR_OUT_OF_MEMORY: the quota has no room for it.
CUresult shim_kernel_known(enum vg_entry entry, CUkernel kernel);
