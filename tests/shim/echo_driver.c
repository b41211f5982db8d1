// A libcuda.so.1 for tests: the functions in turns.def store their arguments, and run nothing.
#include <stdbool.h>
#include <string.h>

#include "abi/cuda_abi.h"
#include "echo_driver.h"

#define EXPORT __attribute__((visibility("default")))

static struct echo echo;
static _Atomic bool capturing, busy;
static _Atomic bool captured; // true after the first capture of any stream
static __thread CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

EXPORT struct echo *echo_last(void)
{
	return &echo;
}

EXPORT void echo_capture(bool on)
{
	capturing = on;
}

EXPORT void echo_keep_busy(bool on)
{
	busy = on;
}

static CUresult note(const char *entry, const uint64_t *arguments)
{
	echo.unsafe += captured && mode != CU_STREAM_CAPTURE_MODE_RELAXED && strcmp(entry, "cuEventQuery") == 0;
	bool waits = strcmp(entry, "cuEventQuery") == 0 || strcmp(entry, "cuStreamQuery") == 0;

	if (!waits || !echo.ignore_queries) {
		memcpy(echo.arguments, arguments, sizeof echo.arguments);
		echo.entry = entry;
		echo.calls++;
	}
	return waits && busy ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

#define TURN(abi, class, stream, shape)                                                                             \
	EXPORT CUresult echo_##abi(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5,    \
				   uint64_t a6, uint64_t a7, uint64_t a8, uint64_t a9, uint64_t a10) __asm__(#abi); \
	EXPORT CUresult echo_##abi(uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5,    \
				   uint64_t a6, uint64_t a7, uint64_t a8, uint64_t a9, uint64_t a10)                \
	{                                                                                                           \
		return note(#abi, (const uint64_t[]){a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10});                 \
	}
#include "shim/turns.def"

EXPORT CUresult cuInit(unsigned int flags)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *current)
{
	*current = (CUcontext)ECHO_CONTEXT;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext current)
{
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *current)
{
	*current = (CUcontext)ECHO_CONTEXT;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	static char events[4096];
	static unsigned int made;

	*event = (CUevent)&events[made++ % sizeof events];
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
	echo.marks++;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent begin, CUevent end)
{
	*ms = 0.02f;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode of_thread)
{
	captured = true;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *exchanged)
{
	CUstreamCaptureMode before = mode;

	mode = *exchanged;
	*exchanged = before;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
	*status = capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

// Addresses below ECHO_DEVICE are host memory.
EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	*(unsigned int *)data = pointer < ECHO_DEVICE ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	return CUDA_SUCCESS;
}
