// Loads NVRTC, nvJitLink and NVVM as tables of typed functions, each once per process. Any thread.
#pragma once
#include <nvJitLink.h>
#include <nvrtc.h>
#include <nvvm.h>
#include <stddef.h>

// Every library of CUDA 12.8 or later has these functions; a library that lacks one is rejected.
#define VG_NVRTC_CALLS(X)              \
	X(nvrtcGetErrorString)         \
	X(nvrtcVersion)                \
	X(nvrtcCreateProgram)          \
	X(nvrtcDestroyProgram)         \
	X(nvrtcCompileProgram)         \
	X(nvrtcGetPTXSize)             \
	X(nvrtcGetPTX)                 \
	X(nvrtcGetCUBINSize)           \
	X(nvrtcGetCUBIN)               \
	X(nvrtcGetLTOIRSize)           \
	X(nvrtcGetLTOIR)               \
	X(nvrtcGetProgramLogSize)      \
	X(nvrtcGetProgramLog)          \
	X(nvrtcAddNameExpression)      \
	X(nvrtcGetLoweredName)         \
	X(nvrtcGetPCHHeapSizeRequired) \
	X(nvrtcSetPCHHeapSize)         \
	X(nvrtcGetPCHCreateStatus)

// NVIDIA's header uses function names with the version of the toolkit as a suffix. These are the names without the
// suffix, so that a later nvJitLink can be used too.
#define VG_NVJITLINK_CALLS(X)          \
	X(nvJitLinkVersion)            \
	X(nvJitLinkCreate)             \
	X(nvJitLinkDestroy)            \
	X(nvJitLinkAddData)            \
	X(nvJitLinkAddFile)            \
	X(nvJitLinkComplete)           \
	X(nvJitLinkGetLinkedCubinSize) \
	X(nvJitLinkGetLinkedCubin)     \
	X(nvJitLinkGetLinkedPtxSize)   \
	X(nvJitLinkGetLinkedPtx)       \
	X(nvJitLinkGetErrorLogSize)    \
	X(nvJitLinkGetErrorLog)        \
	X(nvJitLinkGetInfoLogSize)     \
	X(nvJitLinkGetInfoLog)

#define VG_NVVM_CALLS(X)              \
	X(nvvmGetErrorString)         \
	X(nvvmVersion)                \
	X(nvvmCreateProgram)          \
	X(nvvmDestroyProgram)         \
	X(nvvmAddModuleToProgram)     \
	X(nvvmLazyAddModuleToProgram) \
	X(nvvmVerifyProgram)          \
	X(nvvmCompileProgram)         \
	X(nvvmGetCompiledResultSize)  \
	X(nvvmGetCompiledResult)      \
	X(nvvmGetProgramLogSize)      \
	X(nvvmGetProgramLog)

#define X(name) __typeof__(&name) name;
struct vg_nvrtc {
	VG_NVRTC_CALLS(X)
	const char *path; // path of the library's file
	int major, minor;
};
struct vg_nvjitlink {
	VG_NVJITLINK_CALLS(X)
	const char *path;
	int major, minor;
};
struct vg_nvvm {
	VG_NVVM_CALLS(X)
	const char *path;
	int major, minor;
};
#undef X

// Load a library. If VIRGATE_NVRTC (VIRGATE_NVJITLINK, VIRGATE_NVVM) names a file, no other file is tried. Otherwise
// the first suitable file is loaded from the toolkits at CUDA_HOME and CUDA_PATH, from where the dynamic linker finds
// it, or from the toolkit at /usr/local/cuda. Return 0, or 1 with a sentence in `problem`; the next call then searches
// again.
int vg_nvrtc_load(const struct vg_nvrtc **ret_nvrtc, char *problem, size_t capacity);
int vg_nvjitlink_load(const struct vg_nvjitlink **ret_nvjitlink, char *problem, size_t capacity);
int vg_nvvm_load(const struct vg_nvvm **ret_nvvm, char *problem, size_t capacity);

// Finds the file of libdevice, NVVM's mathematical functions. If VIRGATE_LIBDEVICE names a file, tries no other file.
// Otherwise searches the toolkit of `nvvm`, then those at CUDA_HOME, CUDA_PATH and /usr/local/cuda. Returns 0, or 1
// with a sentence in `problem`.
int vg_libdevice_find(const struct vg_nvvm *nvvm, char *ret_path, size_t path_capacity, char *problem, size_t capacity);
