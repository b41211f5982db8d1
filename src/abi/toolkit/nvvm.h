// NVVM, the compiler of NVVM IR: the functions that Virgate calls.
#pragma once
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
	NVVM_SUCCESS = 0,
	NVVM_ERROR_OUT_OF_MEMORY = 1,
	NVVM_ERROR_PROGRAM_CREATION_FAILURE = 2,
	NVVM_ERROR_IR_VERSION_MISMATCH = 3,
	NVVM_ERROR_INVALID_INPUT = 4,
	NVVM_ERROR_INVALID_PROGRAM = 5,
	NVVM_ERROR_INVALID_IR = 6,
	NVVM_ERROR_INVALID_OPTION = 7,
	NVVM_ERROR_NO_MODULE_IN_PROGRAM = 8,
	NVVM_ERROR_COMPILATION = 9
} nvvmResult;

typedef struct _nvvmProgram *nvvmProgram;

const char *nvvmGetErrorString(nvvmResult);
nvvmResult nvvmVersion(int *major, int *minor);
nvvmResult nvvmCreateProgram(nvvmProgram *);
nvvmResult nvvmDestroyProgram(nvvmProgram *);
nvvmResult nvvmAddModuleToProgram(nvvmProgram, const char *ir, size_t size, const char *name);
nvvmResult nvvmLazyAddModuleToProgram(nvvmProgram, const char *ir, size_t size, const char *name);
nvvmResult nvvmVerifyProgram(nvvmProgram, int count, const char **options);
nvvmResult nvvmCompileProgram(nvvmProgram, int count, const char **options);
nvvmResult nvvmGetCompiledResultSize(nvvmProgram, size_t *);
nvvmResult nvvmGetCompiledResult(nvvmProgram, char *);
nvvmResult nvvmGetProgramLogSize(nvvmProgram, size_t *);
nvvmResult nvvmGetProgramLog(nvvmProgram, char *);

#ifdef __cplusplus
}
#endif
