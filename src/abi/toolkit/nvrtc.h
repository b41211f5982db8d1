// NVRTC, the compiler of CUDA C++: the functions that Virgate calls.
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
	NVRTC_SUCCESS = 0,
	NVRTC_ERROR_OUT_OF_MEMORY = 1,
	NVRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
	NVRTC_ERROR_INVALID_INPUT = 3,
	NVRTC_ERROR_INVALID_PROGRAM = 4,
	NVRTC_ERROR_INVALID_OPTION = 5,
	NVRTC_ERROR_COMPILATION = 6,
	NVRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7,
	NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION = 8,
	NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION = 9,
	NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10,
	NVRTC_ERROR_INTERNAL_ERROR = 11,
	NVRTC_ERROR_TIME_FILE_WRITE_FAILED = 12,
	NVRTC_ERROR_NO_PCH_CREATE_ATTEMPTED = 13,
	NVRTC_ERROR_PCH_CREATE_HEAP_EXHAUSTED = 14,
	NVRTC_ERROR_PCH_CREATE = 15,
	NVRTC_ERROR_CANCELLED = 16
} nvrtcResult;

typedef struct _nvrtcProgram *nvrtcProgram;

const char *nvrtcGetErrorString(nvrtcResult);
nvrtcResult nvrtcVersion(int *major, int *minor);
nvrtcResult nvrtcCreateProgram(nvrtcProgram *, const char *source, const char *name, int headers,
			       const char *const *header_sources, const char *const *header_names);
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *);
nvrtcResult nvrtcCompileProgram(nvrtcProgram, int count, const char *const *options);
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t *);
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char *);

// Results
nvrtcResult nvrtcGetPTXSize(nvrtcProgram, size_t *);
nvrtcResult nvrtcGetPTX(nvrtcProgram, char *);
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram, size_t *);
nvrtcResult nvrtcGetCUBIN(nvrtcProgram, char *);
nvrtcResult nvrtcGetLTOIRSize(nvrtcProgram, size_t *);
nvrtcResult nvrtcGetLTOIR(nvrtcProgram, char *);

// Functions that return the mangled names of C++ functions and variables in the result
nvrtcResult nvrtcAddNameExpression(nvrtcProgram, const char *expression);
nvrtcResult nvrtcGetLoweredName(nvrtcProgram, const char *expression, const char **name);

// Precompiled headers
nvrtcResult nvrtcGetPCHHeapSizeRequired(nvrtcProgram, size_t *);
nvrtcResult nvrtcSetPCHHeapSize(size_t);
nvrtcResult nvrtcGetPCHCreateStatus(nvrtcProgram);

#ifdef __cplusplus
}
#endif
