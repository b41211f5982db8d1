// Modules and libraries load lazily: variables with the first thing that is asked of them, a kernel's
// code with its first launch, which cannot be refused well any more. So what a launch would load is
// loaded when the program asks for the handle, and charged; one that was never asked for costs nothing.
#include <string.h>

#include "shim/function.h"
#include "shim/local.h"
#include "shim/module.h"

static void load(CUfunction function)
{
	CUfunctionLoadingState state;

	if (REAL(cuFuncIsLoaded)(&state, function) == CUDA_SUCCESS && state == CU_FUNCTION_LOADING_STATE_UNLOADED)
		REAL(cuFuncLoad)(function); // what fails now fails at the launch
}

static void note(CUfunction function, uint64_t handle)
{
	int local = 0;

	if (REAL(cuFuncGetAttribute)(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function) == CUDA_SUCCESS)
		shim_local_note(handle, local > 0 ? (uint64_t)local : 0);
}

static CUresult know(enum vg_entry entry, CUlibrary library, CUkernel kernel)
{
	SHIM_RELAXED;
	int64_t before = shim_load_begin();
	CUfunction function;

	if (REAL(cuKernelGetFunction)(&function, kernel) != CUDA_SUCCESS) { // no context yet
		shim_local_defer(kernel);
		return CUDA_SUCCESS;
	}
	load(function);
	note(function, (uintptr_t)kernel); // whatever comes of it: the handle was seen
	note(function, (uintptr_t)function);
	return shim_load_end(entry, SHIM_LIBRARY, library, before);
}

CUresult shim_kernel_known(enum vg_entry entry, CUkernel kernel)
{
	CUlibrary library = NULL;

	REAL(cuKernelGetLibrary)(&library, kernel);
	return know(entry, library, kernel);
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	CUresult result = shim_load_check(VG_ENTRY_cuLibraryGetKernel, SHIM_LIBRARY, library);

	if (result == CUDA_SUCCESS)
		result = REAL(cuLibraryGetKernel)(kernel, library, name);
	if (result != CUDA_SUCCESS || !shim_enforcing())
		return result;
	result = know(VG_ENTRY_cuLibraryGetKernel, library, *kernel);
	if (result == CUDA_SUCCESS)
		shim_load_used(SHIM_LIBRARY, library);
	else
		*kernel = NULL; // it may be loaded all the same
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
	CUresult result = shim_load_check(VG_ENTRY_cuLibraryGetKernelCount, SHIM_LIBRARY, library);

	return result == CUDA_SUCCESS ? REAL(cuLibraryGetKernelCount)(count, library) : result;
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int most, CUlibrary library)
{
	CUresult result = shim_load_check(VG_ENTRY_cuLibraryEnumerateKernels, SHIM_LIBRARY, library);
	unsigned int count = 0;

	if (result == CUDA_SUCCESS)
		result = REAL(cuLibraryEnumerateKernels)(kernels, most, library);
	if (result != CUDA_SUCCESS || !shim_enforcing())
		return result;
	if (REAL(cuLibraryGetKernelCount)(&count, library) != CUDA_SUCCESS || count > most)
		count = most;
	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = know(VG_ENTRY_cuLibraryEnumerateKernels, library, kernels[i]);
	if (result == CUDA_SUCCESS)
		shim_load_used(SHIM_LIBRARY, library);
	else
		memset(kernels, 0, count * sizeof *kernels);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	CUresult result = shim_enforcing() ? shim_kernel_known(VG_ENTRY_cuKernelGetFunction, kernel) : CUDA_SUCCESS;

	return result == CUDA_SUCCESS ? REAL(cuKernelGetFunction)(function, kernel) : result;
}

// Whatever is asked of a library loads it into the current context.
#define ASK(abi, what, handle, ...)                                                                \
	do {                                                                                       \
		CUresult result = shim_load_check(VG_ENTRY_##abi, what, handle);                   \
		int64_t before;                                                                    \
		if (result != CUDA_SUCCESS || !shim_enforcing())                                   \
			return result != CUDA_SUCCESS ? result : REAL(abi)(__VA_ARGS__);           \
		before = shim_load_begin();                                                        \
		result = REAL(abi)(__VA_ARGS__);                                                   \
		if (result != CUDA_SUCCESS)                                                        \
			return result;                                                             \
		result = shim_load_end(VG_ENTRY_##abi, what, handle, before);                      \
		if (result == CUDA_SUCCESS)                                                        \
			shim_load_used(what, handle);                                              \
		return result;                                                                     \
	} while (0)

SHIM_EXPORT CUresult CUDAAPI cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	ASK(cuLibraryGetModule, SHIM_LIBRARY, library, module, library);
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
						const char *name)
{
	ASK(cuLibraryGetGlobal, SHIM_LIBRARY, library, address, bytes, library, name);
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library,
						 const char *name)
{
	ASK(cuLibraryGetManaged, SHIM_LIBRARY, library, address, bytes, library, name);
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryGetUnifiedFunction(void **function, CUlibrary library, const char *symbol)
{
	ASK(cuLibraryGetUnifiedFunction, SHIM_LIBRARY, library, function, library, symbol);
}

SHIM_EXPORT CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr_v1 *address, unsigned int *bytes, CUmodule module,
					       const char *name)
{
	ASK(cuModuleGetGlobal, SHIM_MODULE, module, address, bytes, module, name);
}

SHIM_EXPORT CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
						  const char *name)
{
	ASK(cuModuleGetGlobal_v2, SHIM_MODULE, module, address, bytes, module, name);
}

static CUresult know_function(enum vg_entry entry, CUmodule module, CUfunction function)
{
	SHIM_RELAXED;
	CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_LOADED;
	CUresult result = CUDA_SUCCESS;
	int64_t before;

	if (REAL(cuFuncIsLoaded)(&state, function) == CUDA_SUCCESS && state == CU_FUNCTION_LOADING_STATE_UNLOADED) {
		before = shim_load_begin();
		REAL(cuFuncLoad)(function);
		result = shim_load_end(entry, SHIM_MODULE, module, before);
	}
	note(function, (uintptr_t)function);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	CUresult result = shim_load_check(VG_ENTRY_cuModuleGetFunction, SHIM_MODULE, module);

	if (result == CUDA_SUCCESS)
		result = REAL(cuModuleGetFunction)(function, module, name);
	if (result != CUDA_SUCCESS || !shim_enforcing())
		return result;
	result = know_function(VG_ENTRY_cuModuleGetFunction, module, *function);
	if (result == CUDA_SUCCESS)
		shim_load_used(SHIM_MODULE, module);
	else
		*function = NULL;
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction *functions, unsigned int most, CUmodule module)
{
	CUresult result = shim_load_check(VG_ENTRY_cuModuleEnumerateFunctions, SHIM_MODULE, module);
	unsigned int count = 0;

	if (result == CUDA_SUCCESS)
		result = REAL(cuModuleEnumerateFunctions)(functions, most, module);
	if (result != CUDA_SUCCESS || !shim_enforcing())
		return result;
	if (REAL(cuModuleGetFunctionCount)(&count, module) != CUDA_SUCCESS || count > most)
		count = most;
	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = know_function(VG_ENTRY_cuModuleEnumerateFunctions, module, functions[i]);
	if (result == CUDA_SUCCESS)
		shim_load_used(SHIM_MODULE, module);
	else
		memset(functions, 0, count * sizeof *functions);
	return result;
}
