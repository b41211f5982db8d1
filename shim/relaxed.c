#include "shim/relaxed.h"

#include "shim/entries.h"

CUstreamCaptureMode shim_capture_relax(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	return REAL(cuThreadExchangeStreamCaptureMode)(&mode) == CUDA_SUCCESS ? mode : CU_STREAM_CAPTURE_MODE_RELAXED;
}

void shim_capture_restore(CUstreamCaptureMode *mode)
{
	REAL(cuThreadExchangeStreamCaptureMode)(mode);
}
