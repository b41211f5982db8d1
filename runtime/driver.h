// The driver's functions, found when the runtime is first used. Any thread, after rt_initialize().
#pragma once

#include "abi/cuda_abi.h"
#undef __CUDA_API_VERSION_INTERNAL
#undef __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda_runtime_api.h>

// A function that the driver lacks answers CUDA_ERROR_NOT_SUPPORTED.
struct rt_driver {
#define ENTRY(abi, api, version, stream, family, need) VG_PFN(api, version, stream) abi;
#include "abi/entries.def"
#undef ENTRY
};
extern struct rt_driver rt_driver;

// Names the variant of a driver function for the default stream that this source is compiled for.
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define RT_PTSZ(name) rt_driver.name##_ptsz
#define RT_PTDS(name) rt_driver.name##_ptds
#else
#define RT_PTSZ(name) rt_driver.name
#define RT_PTDS(name) rt_driver.name
#endif

// Loads libcuda.so.1 and fills rt_driver. Not thread-safe.
cudaError_t rt_driver_load(void);
