// The functions of the driver that the pager calls directly, without the gate and the hooks of the interposer.
#pragma once
#include "abi/cuda_abi.h"

#define PAGER_CALLS(X)                                                                                                 \
	X(cuMemAddressReserve)                                                                                         \
	X(cuMemAddressFree)                                                                                            \
	X(cuMemCreate)                                                                                                 \
	X(cuMemRelease)                                                                                                \
	X(cuMemMap)                                                                                                    \
	X(cuMemUnmap)                                                                                                  \
	X(cuMemGetAccess)                                                                                              \
	X(cuMemSetAccess)                                                                                              \
	X(cuMemcpyDtoHAsync_v2)                                                                                        \
	X(cuMemcpyHtoDAsync_v2)                                                                                        \
	X(cuMemHostRegister_v2)                                                                                        \
	X(cuMemHostUnregister)                                                                                         \
	X(cuCtxGetDevice)                                                                                              \
	X(cuCtxPopCurrent_v2)                                                                                          \
	X(cuCtxPushCurrent_v2)                                                                                         \
	X(cuCtxRecordEvent)                                                                                            \
	X(cuCtxSynchronize)                                                                                            \
	X(cuEventCreate)                                                                                               \
	X(cuEventDestroy_v2)                                                                                           \
	X(cuEventQuery)                                                                                                \
	X(cuEventRecord)                                                                                               \
	X(cuEventSynchronize)                                                                                          \
	X(cuStreamCreate)                                                                                              \
	X(cuStreamDestroy_v2)                                                                                          \
	X(cuStreamSynchronize)                                                                                         \
	X(cuThreadExchangeStreamCaptureMode)

struct pager_driver {
#define X(abi) __typeof__(&abi) abi;
	PAGER_CALLS(X)
#undef X
};

// The interposer fills the table before it starts the pager.
extern struct pager_driver pager_driver __attribute__((visibility("hidden")));
