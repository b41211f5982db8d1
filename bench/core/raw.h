// Declares the driver's entry points for the side of the cases that calls the driver directly. One thread.
#pragma once
#include <cuda.h>

#define RAW_ENTRIES(X)                    \
	X(cuCtxGetCurrent)                \
	X(cuCtxGetDevice)                 \
	X(cuCtxPopCurrent)                \
	X(cuCtxPushCurrent)               \
	X(cuCtxSetCurrent)                \
	X(cuCtxSynchronize)               \
	X(cuDeviceGet)                    \
	X(cuDeviceGetAttribute)           \
	X(cuDevicePrimaryCtxRelease)      \
	X(cuDevicePrimaryCtxRetain)       \
	X(cuEventCreate)                  \
	X(cuEventDestroy)                 \
	X(cuEventQuery)                   \
	X(cuEventRecord)                  \
	X(cuEventSynchronize)             \
	X(cuGraphExecMemsetNodeSetParams) \
	X(cuGraphLaunch)                  \
	X(cuGraphMemsetNodeGetParams)     \
	X(cuLaunchKernelEx)               \
	X(cuMemAlloc)                     \
	X(cuMemAllocFromPoolAsync)        \
	X(cuMemFree)                      \
	X(cuMemFreeAsync)                 \
	X(cuMemcpyAsync)                  \
	X(cuMemsetD8Async)                \
	X(cuPointerGetAttributes)         \
	X(cuStreamCreateWithPriority)     \
	X(cuStreamDestroy)                \
	X(cuStreamQuery)                  \
	X(cuStreamSynchronize)

struct raw {
	// <cuda.h> renames some entry points: the member and the symbol have the new name.
#define X(entry) __typeof__(&entry) entry;
	RAW_ENTRIES(X)
#undef X
};
extern struct raw raw;

// Fills `raw` from the driver that the library has loaded.
void raw_open(void);
