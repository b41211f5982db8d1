// Hooks the queries by which the program gets functions, kernels and variables.
#include <string.h>

#include "shim/kernel.h"

// Defines a hook that gets a kernel or function by its name, and loads and charges its code at once.
#define GET_CODE(abi, type, module_type, code_type, load)                                       \
	SHIM_EXPORT CUresult CUDAAPI abi(code_type *code, module_type module, const char *name) \
	{                                                                                       \
		CUresult result = shim_load_check(VG_ENTRY_##abi, type, module);                \
		if (result == CUDA_SUCCESS)                                                     \
			result = REAL(abi)(code, module, name);                                 \
		if (result != CUDA_SUCCESS || !shim_enforcing())                                \
			return result;                                                          \
		result = load(VG_ENTRY_##abi, module, *code);                                   \
		if (result == CUDA_SUCCESS)                                                     \
			shim_load_note_use(type, module);                                       \
		else                                                                            \
			*code = NULL; /* a failed call returns no handle to loaded code */      \
		return result;                                                                  \
	}
GET_CODE(cuLibraryGetKernel, SHIM_LIBRARY, CUlibrary, CUkernel, shim_kernel_load_from)
GET_CODE(cuModuleGetFunction, SHIM_MODULE, CUmodule, CUfunction, shim_function_load)

// Lists kernels or functions, and loads the code of all that are returned.
#define LIST_CODE(abi, type, module_type, code_type, count_abi, load)                             \
	SHIM_EXPORT CUresult CUDAAPI abi(code_type *codes, unsigned int most, module_type module) \
	{                                                                                         \
		CUresult result = shim_load_check(VG_ENTRY_##abi, type, module);                  \
		unsigned int count = 0;                                                           \
		if (result == CUDA_SUCCESS)                                                       \
			result = REAL(abi)(codes, most, module);                                  \
		if (result != CUDA_SUCCESS || !shim_enforcing())                                  \
			return result;                                                            \
		if (REAL(count_abi)(&count, module) != CUDA_SUCCESS || count > most)              \
			count = most;                                                             \
		for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)                \
			result = load(VG_ENTRY_##abi, module, codes[i]);                          \
		if (result == CUDA_SUCCESS)                                                       \
			shim_load_note_use(type, module);                                         \
		else                                                                              \
			memset(codes, 0, count * sizeof *codes);                                  \
		return result;                                                                    \
	}
LIST_CODE(cuLibraryEnumerateKernels, SHIM_LIBRARY, CUlibrary, CUkernel, cuLibraryGetKernelCount, shim_kernel_load_from)
LIST_CODE(cuModuleEnumerateFunctions, SHIM_MODULE, CUmodule, CUfunction, cuModuleGetFunctionCount, shim_function_load)

SHIM_EXPORT CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
	CUresult result = shim_load_check(VG_ENTRY_cuLibraryGetKernelCount, SHIM_LIBRARY, library);

	return result == CUDA_SUCCESS ? REAL(cuLibraryGetKernelCount)(count, library) : result;
}

SHIM_EXPORT CUresult CUDAAPI cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	CUresult result = shim_enforcing() ? shim_kernel_load(VG_ENTRY_cuKernelGetFunction, kernel) : CUDA_SUCCESS;

	return result == CUDA_SUCCESS ? REAL(cuKernelGetFunction)(function, kernel) : result;
}

// Defines a query about a library's contents. Such a query makes the driver load the library into the current context.
#define QUERY(abi, type, handle, ...)                                                    \
	do {                                                                             \
		CUresult result = shim_load_check(VG_ENTRY_##abi, type, handle);         \
		int64_t before;                                                          \
		if (result != CUDA_SUCCESS || !shim_enforcing())                         \
			return result != CUDA_SUCCESS ? result : REAL(abi)(__VA_ARGS__); \
		before = shim_load_begin();                                              \
		result = REAL(abi)(__VA_ARGS__);                                         \
		if (result != CUDA_SUCCESS)                                              \
			return result;                                                   \
		result = shim_load_end(VG_ENTRY_##abi, type, handle, before);            \
		if (result == CUDA_SUCCESS)                                              \
			shim_load_note_use(type, handle);                                \
		return result;                                                           \
	} while (0)

SHIM_EXPORT CUresult CUDAAPI cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	QUERY(cuLibraryGetModule, SHIM_LIBRARY, library, module, library);
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
						const char *name)
{
	QUERY(cuLibraryGetGlobal, SHIM_LIBRARY, library, address, bytes, library, name);
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library,
						 const char *name)
{
	QUERY(cuLibraryGetManaged, SHIM_LIBRARY, library, address, bytes, library, name);
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryGetUnifiedFunction(void **function, CUlibrary library, const char *symbol)
{
	QUERY(cuLibraryGetUnifiedFunction, SHIM_LIBRARY, library, function, library, symbol);
}

SHIM_EXPORT CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr_v1 *address, unsigned int *bytes, CUmodule module,
					       const char *name)
{
	QUERY(cuModuleGetGlobal, SHIM_MODULE, module, address, bytes, module, name);
}

SHIM_EXPORT CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
						  const char *name)
{
	QUERY(cuModuleGetGlobal_v2, SHIM_MODULE, module, address, bytes, module, name);
}
