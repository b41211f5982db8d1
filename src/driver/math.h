// cuBLASLt and cuDNN as tables of typed functions, each loaded once per process. They contain a CUDA runtime, which
// uses the thread's current context. Any thread.
#pragma once
#include <cublasLt.h>
#include <stddef.h>

#include "driver/cudnn_abi.h"

// Every cuBLASLt of CUDA 12 has these; a library that lacks one is refused.
#define VG_CUBLASLT_CALLS(X)                                                                                           \
	X(cublasLtGetVersion)                                                                                          \
	X(cublasLtGetStatusName)                                                                                       \
	X(cublasLtCreate)                                                                                              \
	X(cublasLtDestroy)                                                                                             \
	X(cublasLtMatmulDescInit_internal)                                                                             \
	X(cublasLtMatmulDescSetAttribute)                                                                              \
	X(cublasLtMatrixLayoutInit_internal)                                                                           \
	X(cublasLtMatrixLayoutSetAttribute)                                                                            \
	X(cublasLtMatmulPreferenceInit_internal)                                                                       \
	X(cublasLtMatmulPreferenceSetAttribute)                                                                        \
	X(cublasLtMatmulAlgoGetHeuristic)                                                                              \
	X(cublasLtMatmulAlgoCapGetAttribute)                                                                           \
	X(cublasLtMatmulAlgoConfigGetAttribute)                                                                        \
	X(cublasLtMatmul)

#define X(name) __typeof__(&name) name;
struct vg_cublaslt {
	VG_CUBLASLT_CALLS(X)
	const char *path; // of the file
	int major, minor;
};
#undef X

#define X(name, ...) int (*name)(__VA_ARGS__);
struct vg_cudnn {
	VG_CUDNN_CALLS(X)
	size_t (*cudnnGetVersion)(void);
	const char *(*cudnnGetErrorString)(int status);
	const char *path;
	int major, minor;
};
#undef X

// Loads the file that VIRGATE_CUBLASLT (VIRGATE_CUDNN) names, or else the first suitable one of: the toolkits in
// CUDA_HOME and CUDA_PATH, the dynamic linker's, the toolkit in /usr/local/cuda. Returns 0, or 1 with a sentence in
// `problem`; the next call searches again.
int vg_cublaslt_load(const struct vg_cublaslt **ret_cublaslt, char *problem, size_t capacity);
int vg_cudnn_load(const struct vg_cudnn **ret_cudnn, char *problem, size_t capacity);
