// Functions, kernels and variables that the program asks for.
#include <string.h>

#include "shim/kernel.h"

SHIM_EXPORT CUresult CUDAAPI cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	CUresult result = shim_load_check(VG_ENTRY_cuLibraryGetKernel, SHIM_LIBRARY, library);

	if (result == CUDA_SUCCESS)
		result = REAL(cuLibraryGetKernel)(kernel, library, name);
	if (result != CUDA_SUCCESS || !shim_enforcing())
		return result;
	result = shim_kernel_load_from(VG_ENTRY_cuLibraryGetKernel, library, *kernel);
	if (result == CUDA_SUCCESS)
		shim_load_note_use(SHIM_LIBRARY, library);
	else
		*kernel = NULL; // although it may be loaded
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
		result = shim_kernel_load_from(VG_ENTRY_cuLibraryEnumerateKernels, library, kernels[i]);
	if (result == CUDA_SUCCESS)
		shim_load_note_use(SHIM_LIBRARY, library);
	else
		memset(kernels, 0, count * sizeof *kernels);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	CUresult result = shim_enforcing() ? shim_kernel_load(VG_ENTRY_cuKernelGetFunction, kernel) : CUDA_SUCCESS;

	return result == CUDA_SUCCESS ? REAL(cuKernelGetFunction)(function, kernel) : result;
}

// Any query loads the library into the current context.
#define ASK(abi, type, handle, ...)                                                                \
	do {                                                                                       \
		CUresult result = shim_load_check(VG_ENTRY_##abi, type, handle);                   \
		int64_t before;                                                                    \
		if (result != CUDA_SUCCESS || !shim_enforcing())                                   \
			return result != CUDA_SUCCESS ? result : REAL(abi)(__VA_ARGS__);           \
		before = shim_load_begin();                                                        \
		result = REAL(abi)(__VA_ARGS__);                                                   \
		if (result != CUDA_SUCCESS)                                                        \
			return result;                                                             \
		result = shim_load_end(VG_ENTRY_##abi, type, handle, before);                      \
		if (result == CUDA_SUCCESS)                                                        \
			shim_load_note_use(type, handle);                                              \
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

SHIM_EXPORT CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	CUresult result = shim_load_check(VG_ENTRY_cuModuleGetFunction, SHIM_MODULE, module);

	if (result == CUDA_SUCCESS)
		result = REAL(cuModuleGetFunction)(function, module, name);
	if (result != CUDA_SUCCESS || !shim_enforcing())
		return result;
	result = shim_function_load(VG_ENTRY_cuModuleGetFunction, module, *function);
	if (result == CUDA_SUCCESS)
		shim_load_note_use(SHIM_MODULE, module);
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
		result = shim_function_load(VG_ENTRY_cuModuleEnumerateFunctions, module, functions[i]);
	if (result == CUDA_SUCCESS)
		shim_load_note_use(SHIM_MODULE, module);
	else
		memset(functions, 0, count * sizeof *functions);
	return result;
}
