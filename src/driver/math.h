// Loads cuBLASLt and cuDNN as tables of typed functions, each once per process. Both contain a CUDA runtime, which uses
// the thread's current context. Any thread.
#pragma once
#include <cublasLt.h>
#include <stddef.h>

#include "driver/cudnn_abi.h"

// Every cuBLASLt of CUDA 12 has these functions; a library that lacks one is rejected.
#define VG_CUBLASLT_CALLS(X)                     \
	X(cublasLtGetVersion)                    \
	X(cublasLtGetStatusName)                 \
	X(cublasLtCreate)                        \
	X(cublasLtDestroy)                       \
	X(cublasLtMatmulDescInit_internal)       \
	X(cublasLtMatmulDescSetAttribute)        \
	X(cublasLtMatrixLayoutInit_internal)     \
	X(cublasLtMatrixLayoutSetAttribute)      \
	X(cublasLtMatmulPreferenceInit_internal) \
	X(cublasLtMatmulPreferenceSetAttribute)  \
	X(cublasLtMatmulAlgoGetHeuristic)        \
	X(cublasLtMatmulAlgoCapGetAttribute)     \
	X(cublasLtMatmulAlgoConfigGetAttribute)  \
	X(cublasLtMatmul)

#define X(name) __typeof__(&name) name;
struct vg_cublaslt {
	VG_CUBLASLT_CALLS(X)
	const char *path; // path of the library's file
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

// Load a library. If VIRGATE_CUBLASLT (VIRGATE_CUDNN) names a file, no other file is tried. Otherwise the first
// suitable file is loaded from the toolkits at CUDA_HOME and CUDA_PATH, from where the dynamic linker finds it, or from
// the toolkit at /usr/local/cuda. Return 0, or 1 with a sentence in `problem`; the next call then searches again.
int vg_cublaslt_load(const struct vg_cublaslt **ret_cublaslt, char *problem, size_t capacity);
int vg_cudnn_load(const struct vg_cudnn **ret_cudnn, char *problem, size_t capacity);
