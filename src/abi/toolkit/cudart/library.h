// Declares libraries that programs load at run time, access to the driver's functions, and the driver's log.
#pragma once
#include "base.h"

enum cudaJitOption {
	cudaJitMaxRegisters = 0,
	cudaJitThreadsPerBlock = 1,
	cudaJitWallTime = 2,
	cudaJitInfoLogBuffer = 3,
	cudaJitInfoLogBufferSizeBytes = 4,
	cudaJitErrorLogBuffer = 5,
	cudaJitErrorLogBufferSizeBytes = 6,
	cudaJitOptimizationLevel = 7,
	cudaJitFallbackStrategy = 10,
	cudaJitGenerateDebugInfo = 11,
	cudaJitLogVerbose = 12,
	cudaJitGenerateLineInfo = 13,
	cudaJitCacheMode = 14,
	cudaJitPositionIndependentCode = 30,
	cudaJitMinCtaPerSm = 31,
	cudaJitMaxThreadsPerBlock = 32,
	cudaJitOverrideDirectiveValues = 33
};

enum cudaJit_CacheMode { cudaJitCacheOptionNone = 0, cudaJitCacheOptionCG, cudaJitCacheOptionCA };

enum cudaJit_Fallback { cudaPreferPtx = 0, cudaPreferBinary };

enum cudaLibraryOption { cudaLibraryHostUniversalFunctionAndDataTable = 0, cudaLibraryBinaryIsPreserved = 1 };

struct cudalibraryHostUniversalFunctionAndDataTable {
	void *functionTable;
	size_t functionWindowSize;
	void *dataTable;
	size_t dataWindowSize;
};

CUDART_API(cudaLibraryLoadData, (cudaLibrary_t *, const void *code, enum cudaJitOption *, void **jit_values,
				 unsigned int jit_count, enum cudaLibraryOption *, void **values, unsigned int count))
CUDART_API(cudaLibraryLoadFromFile,
	   (cudaLibrary_t *, const char *path, enum cudaJitOption *, void **jit_values, unsigned int jit_count,
	    enum cudaLibraryOption *, void **values, unsigned int count))
CUDART_API(cudaLibraryUnload, (cudaLibrary_t))
CUDART_API(cudaLibraryGetKernel, (cudaKernel_t *, cudaLibrary_t, const char *name))
CUDART_API(cudaLibraryGetGlobal, (void **address, size_t *size, cudaLibrary_t, const char *name))
CUDART_API(cudaLibraryGetManaged, (void **address, size_t *size, cudaLibrary_t, const char *name))
CUDART_API(cudaLibraryGetUnifiedFunction, (void **function, cudaLibrary_t, const char *name))
CUDART_API(cudaLibraryGetKernelCount, (unsigned int *count, cudaLibrary_t))
CUDART_API(cudaLibraryEnumerateKernels, (cudaKernel_t *, unsigned int count, cudaLibrary_t))

// Functions that find driver functions by name
enum cudaGetDriverEntryPointFlags {
	cudaEnableDefault = 0x0,
	cudaEnableLegacyStream = 0x1,
	cudaEnablePerThreadDefaultStream = 0x2
};

enum cudaDriverEntryPointQueryResult {
	cudaDriverEntryPointSuccess = 0,
	cudaDriverEntryPointSymbolNotFound = 1,
	cudaDriverEntryPointVersionNotSufficent = 2
};

CUDART_API(cudaGetDriverEntryPoint, (const char *name, void **function, unsigned long long flags,
				     enum cudaDriverEntryPointQueryResult *status CUDART_DEFAULT(NULL)))
CUDART_API(cudaGetDriverEntryPointByVersion,
	   (const char *name, void **function, unsigned int version, unsigned long long flags,
	    enum cudaDriverEntryPointQueryResult *status CUDART_DEFAULT(NULL)))
CUDART_API(cudaGetExportTable, (const void **table, const cudaUUID_t *))

// The driver's log
enum CUDAlogLevel_enum { cudaLogLevelError = 0, cudaLogLevelWarning = 1 };
typedef enum CUDAlogLevel_enum cudaLogLevel;
typedef struct CUlogsCallbackEntry_st *cudaLogsCallbackHandle;
typedef unsigned int cudaLogIterator;
typedef void(CUDART_CB *cudaLogsCallback_t)(void *data, cudaLogLevel, char *message, size_t length);

CUDART_API(cudaLogsRegisterCallback, (cudaLogsCallback_t, void *data, cudaLogsCallbackHandle *))
CUDART_API(cudaLogsUnregisterCallback, (cudaLogsCallbackHandle))
CUDART_API(cudaLogsCurrent, (cudaLogIterator *, unsigned int flags))
CUDART_API(cudaLogsDumpToFile, (cudaLogIterator *, const char *path, unsigned int flags))
CUDART_API(cudaLogsDumpToMemory, (cudaLogIterator *, char *buffer, size_t *size, unsigned int flags))
