// Loads the code of kernels and functions early, and charges it. By default the driver loads code at its first use,
// such as a kernel's code at its first launch. But programs do not expect a launch to fail for lack of memory. So the
// code is loaded and charged when the program gets the handle of a kernel or function. A library from which the program
// gets nothing is not loaded, so it costs nothing.
#include "shim/kernel.h"

#include "shim/local.h"

static bool is_unloaded(CUfunction function)
{
	CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_LOADED;

	return REAL(cuFuncIsLoaded)(&state, function) == CUDA_SUCCESS && state == CU_FUNCTION_LOADING_STATE_UNLOADED;
}

static void note_local(CUfunction function, uint64_t handle)
{
	int local = 0;

	if (REAL(cuFuncGetAttribute)(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function) == CUDA_SUCCESS)
		shim_local_note(handle, local > 0 ? (uint64_t)local : 0);
}

CUresult shim_kernel_load_from(enum vg_entry entry, CUlibrary library, CUkernel kernel)
{
	SHIM_RELAXED;
	int64_t before = shim_load_begin();
	CUfunction function;

	if (REAL(cuKernelGetFunction)(&function, kernel) != CUDA_SUCCESS) { // fails if there is no context yet
		shim_local_defer(kernel);
		return CUDA_SUCCESS;
	}
	if (is_unloaded(function))
		REAL(cuFuncLoad)(function); // if loading fails, the launch reports the error
	// Note the kernel's local memory also if loading failed: the program has the handle and may launch the kernel.
	note_local(function, (uintptr_t)kernel);
	note_local(function, (uintptr_t)function);
	return shim_load_end(entry, SHIM_LIBRARY, library, before);
}

CUresult shim_kernel_load(enum vg_entry entry, CUkernel kernel)
{
	CUlibrary library = NULL;

	REAL(cuKernelGetLibrary)(&library, kernel);
	return shim_kernel_load_from(entry, library, kernel);
}

CUresult shim_function_load(enum vg_entry entry, CUmodule module, CUfunction function)
{
	SHIM_RELAXED;
	CUresult result = CUDA_SUCCESS;
	int64_t before;

	if (is_unloaded(function)) {
		before = shim_load_begin();
		REAL(cuFuncLoad)(function);
		result = shim_load_end(entry, SHIM_MODULE, module, before);
	}
	note_local(function, (uintptr_t)function);
	return result;
}
