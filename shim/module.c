// Hooks the loading and unloading of modules and libraries.
#include "shim/load_charge.h"

#define LOAD(abi, type, handle, ...)                                                                           \
	do {                                                                                                   \
		int64_t before = shim_enforcing() ? shim_load_begin() : SHIM_LOAD_UNMEASURED;                  \
		CUresult loaded = REAL(abi)(handle, __VA_ARGS__);                                              \
		return shim_load_finish(VG_ENTRY_##abi, type, loaded, loaded == CUDA_SUCCESS ? *handle : NULL, \
					before);                                                               \
	} while (0)

SHIM_EXPORT CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *file)
{
	LOAD(cuModuleLoad, SHIM_MODULE, module, file);
}

SHIM_EXPORT CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
	LOAD(cuModuleLoadData, SHIM_MODULE, module, image);
}

SHIM_EXPORT CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
						CUjit_option *options, void **values)
{
	LOAD(cuModuleLoadDataEx, SHIM_MODULE, module, image, count, options, values);
}

SHIM_EXPORT CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	LOAD(cuModuleLoadFatBinary, SHIM_MODULE, module, image);
}

SHIM_EXPORT CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
	return shim_counting() ? shim_load_unload(SHIM_MODULE, module) : REAL(cuModuleUnload)(module);
}

#define LOAD_LIBRARY(abi, library, ...)                                                                 \
	do {                                                                                            \
		CUresult room = shim_enforcing() ? shim_load_check_room(VG_ENTRY_##abi) : CUDA_SUCCESS; \
		if (room != CUDA_SUCCESS)                                                               \
			return room;                                                                    \
		LOAD(abi, SHIM_LIBRARY, library, __VA_ARGS__);                                          \
	} while (0)

SHIM_EXPORT CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options,
					       void **jit_values, unsigned int jit_count, CUlibraryOption *options,
					       void **values, unsigned int count)
{
	LOAD_LIBRARY(cuLibraryLoadData, library, code, jit_options, jit_values, jit_count, options, values, count);
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *library, const char *file, CUjit_option *jit_options,
						   void **jit_values, unsigned int jit_count, CUlibraryOption *options,
						   void **values, unsigned int count)
{
	LOAD_LIBRARY(cuLibraryLoadFromFile, library, file, jit_options, jit_values, jit_count, options, values, count);
}

SHIM_EXPORT CUresult CUDAAPI cuLibraryUnload(CUlibrary library)
{
	return shim_counting() ? shim_load_unload(SHIM_LIBRARY, library) : REAL(cuLibraryUnload)(library);
}
