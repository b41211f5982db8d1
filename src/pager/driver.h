// Declares the table of driver functions that the pager calls without passing the gate. The functions for modules are
// the interposer's, which charge the device memory of a module. All others are the driver's.
#pragma once
#include "abi/cuda_abi.h"

#define PAGER_CALLS(X)          \
	X(cuMemAddressReserve)  \
	X(cuMemAddressFree)     \
	X(cuMemCreate)          \
	X(cuMemRelease)         \
	X(cuMemMap)             \
	X(cuMemUnmap)           \
	X(cuMemGetAccess)       \
	X(cuMemSetAccess)       \
	X(cuMemcpyDtoHAsync_v2) \
	X(cuMemcpyHtoDAsync_v2) \
	X(cuMemHostRegister_v2) \
	X(cuMemHostUnregister)  \
	X(cuLaunchKernel)       \
	X(cuModuleGetFunction)  \
	X(cuModuleGetGlobal_v2) \
	X(cuModuleLoadData)     \
	X(cuModuleUnload)       \
	X(cuCtxGetDevice)       \
	X(cuCtxPopCurrent_v2)   \
	X(cuCtxPushCurrent_v2)  \
	X(cuCtxRecordEvent)     \
	X(cuCtxSynchronize)     \
	X(cuEventCreate)        \
	X(cuEventDestroy_v2)    \
	X(cuEventQuery)         \
	X(cuEventRecord)        \
	X(cuEventSynchronize)   \
	X(cuStreamCreate)       \
	X(cuStreamDestroy_v2)   \
	X(cuStreamSynchronize)  \
	X(cuThreadExchangeStreamCaptureMode)

struct pager_driver {
#define X(abi) __typeof__(&abi) abi;
	PAGER_CALLS(X)
#undef X
};

// The interposer fills the table before it starts the pager.
extern struct pager_driver pager_driver __attribute__((visibility("hidden")));

// Returns the current context of the thread; NULL: none.
static inline CUcontext pager_current_context(void)
{
	CUcontext context = NULL;

	if (pager_driver.cuCtxPopCurrent_v2(&context) == CUDA_SUCCESS)
		pager_driver.cuCtxPushCurrent_v2(context);
	return context;
}
