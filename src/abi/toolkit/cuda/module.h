// Declares modules, libraries, kernels and the linker.
#pragma once
#include "launch.h"

typedef enum CUjit_option_enum {
	CU_JIT_MAX_REGISTERS = 0,
	CU_JIT_THREADS_PER_BLOCK = 1,
	CU_JIT_WALL_TIME = 2,
	CU_JIT_INFO_LOG_BUFFER = 3,
	CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,
	CU_JIT_ERROR_LOG_BUFFER = 5,
	CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
	CU_JIT_OPTIMIZATION_LEVEL = 7,
	CU_JIT_TARGET_FROM_CUCONTEXT = 8,
	CU_JIT_TARGET = 9,
	CU_JIT_FALLBACK_STRATEGY = 10,
	CU_JIT_GENERATE_DEBUG_INFO = 11,
	CU_JIT_LOG_VERBOSE = 12,
	CU_JIT_GENERATE_LINE_INFO = 13,
	CU_JIT_CACHE_MODE = 14,
	CU_JIT_NEW_SM3X_OPT = 15,
	CU_JIT_FAST_COMPILE = 16,
	CU_JIT_GLOBAL_SYMBOL_NAMES = 17,
	CU_JIT_GLOBAL_SYMBOL_ADDRESSES = 18,
	CU_JIT_GLOBAL_SYMBOL_COUNT = 19,
	CU_JIT_LTO = 20,
	CU_JIT_FTZ = 21,
	CU_JIT_PREC_DIV = 22,
	CU_JIT_PREC_SQRT = 23,
	CU_JIT_FMA = 24,
	CU_JIT_REFERENCED_KERNEL_NAMES = 25,
	CU_JIT_REFERENCED_KERNEL_COUNT = 26,
	CU_JIT_REFERENCED_VARIABLE_NAMES = 27,
	CU_JIT_REFERENCED_VARIABLE_COUNT = 28,
	CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES = 29,
	CU_JIT_POSITION_INDEPENDENT_CODE = 30,
	CU_JIT_MIN_CTA_PER_SM = 31,
	CU_JIT_MAX_THREADS_PER_BLOCK = 32,
	CU_JIT_OVERRIDE_DIRECTIVE_VALUES = 33,
	CU_JIT_SPLIT_COMPILE = 34,
	CU_JIT_NUM_OPTIONS
} CUjit_option;

typedef enum CUjitInputType_enum {
	CU_JIT_INPUT_CUBIN = 0,
	CU_JIT_INPUT_PTX = 1,
	CU_JIT_INPUT_FATBINARY = 2,
	CU_JIT_INPUT_OBJECT = 3,
	CU_JIT_INPUT_LIBRARY = 4,
	CU_JIT_INPUT_NVVM = 5,
	CU_JIT_NUM_INPUT_TYPES = 6
} CUjitInputType;

typedef enum CUjit_fallback_enum { CU_PREFER_PTX = 0, CU_PREFER_BINARY = 1 } CUjit_fallback;

typedef enum CUjit_cacheMode_enum {
	CU_JIT_CACHE_OPTION_NONE = 0,
	CU_JIT_CACHE_OPTION_CG = 1,
	CU_JIT_CACHE_OPTION_CA = 2
} CUjit_cacheMode;

// Architectures: 10 * major + minor, plus a base for the suffix `a` (accelerated) or `f` (family)
#define CU_COMPUTE_ACCELERATED_TARGET_BASE 0x10000
#define CU_COMPUTE_FAMILY_TARGET_BASE 0x20000

typedef enum CUmoduleLoadingMode_enum { CU_MODULE_EAGER_LOADING = 1, CU_MODULE_LAZY_LOADING = 2 } CUmoduleLoadingMode;

CU_API(cuModuleLoad, (CUmodule *, const char *path))
CU_API(cuModuleLoadData, (CUmodule *, const void *image))
CU_API(cuModuleLoadDataEx, (CUmodule *, const void *image, unsigned int count, CUjit_option *, void **values))
CU_API(cuModuleLoadFatBinary, (CUmodule *, const void *fatbin))
CU_API(cuModuleUnload, (CUmodule))
CU_API(cuModuleGetLoadingMode, (CUmoduleLoadingMode *))
CU_API(cuModuleGetFunction, (CUfunction *, CUmodule, const char *name))
CU_API(cuModuleGetFunctionCount, (unsigned int *, CUmodule))
CU_API(cuModuleEnumerateFunctions, (CUfunction *, unsigned int count, CUmodule))
CU_API(cuModuleGetGlobal_v2, (CUdeviceptr *, size_t *size, CUmodule, const char *name))
CU_API(cuModuleGetTexRef, (CUtexref *, CUmodule, const char *name))
CU_API(cuModuleGetSurfRef, (CUsurfref *, CUmodule, const char *name))

// Libraries: modules that do not belong to a context
typedef enum CUlibraryOption_enum {
	CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE = 0,
	CU_LIBRARY_BINARY_IS_PRESERVED = 1,
	CU_LIBRARY_NUM_OPTIONS
} CUlibraryOption;

typedef struct CUlibraryHostUniversalFunctionAndDataTable_st {
	void *functionTable;
	size_t functionWindowSize;
	void *dataTable;
	size_t dataWindowSize;
} CUlibraryHostUniversalFunctionAndDataTable;

CU_API(cuLibraryLoadData, (CUlibrary *, const void *image, CUjit_option *, void **jit_values, unsigned int jit_count,
			   CUlibraryOption *, void **values, unsigned int count))
CU_API(cuLibraryLoadFromFile, (CUlibrary *, const char *path, CUjit_option *, void **jit_values, unsigned int jit_count,
			       CUlibraryOption *, void **values, unsigned int count))
CU_API(cuLibraryUnload, (CUlibrary))
CU_API(cuLibraryGetKernel, (CUkernel *, CUlibrary, const char *name))
CU_API(cuLibraryGetKernelCount, (unsigned int *, CUlibrary))
CU_API(cuLibraryEnumerateKernels, (CUkernel *, unsigned int count, CUlibrary))
CU_API(cuLibraryGetModule, (CUmodule *, CUlibrary))
CU_API(cuLibraryGetGlobal, (CUdeviceptr *, size_t *size, CUlibrary, const char *name))
CU_API(cuLibraryGetManaged, (CUdeviceptr *, size_t *size, CUlibrary, const char *name))
CU_API(cuLibraryGetUnifiedFunction, (void **, CUlibrary, const char *symbol))
CU_API(cuKernelGetFunction, (CUfunction *, CUkernel))
CU_API(cuKernelGetLibrary, (CUlibrary *, CUkernel))
CU_API(cuKernelGetName, (const char **, CUkernel))
CU_API(cuKernelGetParamInfo, (CUkernel, size_t index, size_t *offset, size_t *size))
CU_API(cuKernelGetAttribute, (int *, CUfunction_attribute, CUkernel, CUdevice))
CU_API(cuKernelSetAttribute, (CUfunction_attribute, int, CUkernel, CUdevice))
CU_API(cuKernelSetCacheConfig, (CUkernel, CUfunc_cache, CUdevice))

// The linker
CU_API(cuLinkCreate_v2, (unsigned int count, CUjit_option *, void **values, CUlinkState *))
CU_API(cuLinkAddData_v2, (CUlinkState, CUjitInputType, void *data, size_t size, const char *name, unsigned int count,
			  CUjit_option *, void **values))
CU_API(cuLinkAddFile_v2,
       (CUlinkState, CUjitInputType, const char *path, unsigned int count, CUjit_option *, void **values))
CU_API(cuLinkComplete, (CUlinkState, void **cubin, size_t *size))
CU_API(cuLinkDestroy, (CUlinkState))
