// Declares the driver's functions, loaded when the runtime is first used. Any thread, after rt_initialize().
#pragma once

#include "abi/cuda_abi.h"
#undef __CUDA_API_VERSION_INTERNAL
#undef __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda_runtime_api.h>

// The driver's functions for OpenGL. Their types are here, because entries.def has only their names.
#define RT_OPENGL_ENTRIES(ENTRY)                                                               \
	ENTRY(cuGLGetDevices_v2, (unsigned *, CUdevice *, unsigned, int))                      \
	ENTRY(cuGraphicsGLRegisterBuffer, (CUgraphicsResource *, unsigned, unsigned))          \
	ENTRY(cuGraphicsGLRegisterImage, (CUgraphicsResource *, unsigned, unsigned, unsigned)) \
	ENTRY(cuGLRegisterBufferObject, (unsigned))                                            \
	ENTRY(cuGLSetBufferObjectMapFlags, (unsigned, unsigned))                               \
	ENTRY(cuGLMapBufferObject_v2, (CUdeviceptr *, size_t *, unsigned))                     \
	ENTRY(cuGLMapBufferObjectAsync_v2, (CUdeviceptr *, size_t *, unsigned, CUstream))      \
	ENTRY(cuGLUnmapBufferObject, (unsigned))                                               \
	ENTRY(cuGLUnmapBufferObjectAsync, (unsigned, CUstream))                                \
	ENTRY(cuGLUnregisterBufferObject, (unsigned))

// Pointers to the driver's functions. If the driver lacks one, the pointer is to a function that returns
// CUDA_ERROR_NOT_SUPPORTED.
struct rt_driver {
#define ENTRY(abi, api, version, stream, family, need) VG_PFN(api, version, stream) abi;
#include "abi/entries.def"
#undef ENTRY
#define ENTRY(name, parameters) CUresult(CUDAAPI *name) parameters;
	RT_OPENGL_ENTRIES(ENTRY)
#undef ENTRY
};
extern struct rt_driver rt_driver;

// Yields the variant of a driver function for the default stream for which this source is compiled.
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define RT_PTSZ(name) rt_driver.name##_ptsz
#define RT_PTDS(name) rt_driver.name##_ptds
#else
#define RT_PTSZ(name) rt_driver.name
#define RT_PTDS(name) rt_driver.name
#endif

// Loads libcuda.so.1 and fills rt_driver. Not thread-safe.
cudaError_t rt_driver_load(void);
