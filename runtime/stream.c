// Implements those functions for streams that are the same for the legacy and the per-thread default stream.
#include "runtime.h"

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t *pStream)
{
	RT_CALL(rt_driver.cuStreamCreate(pStream, CU_STREAM_DEFAULT));
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
	RT_CALL(rt_driver.cuStreamCreate(pStream, flags));
}

cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
	RT_CALL(rt_driver.cuStreamCreateWithPriority(pStream, flags, priority));
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream)
{
	RT_CALL(stream ? rt_error(rt_driver.cuStreamDestroy_v2(stream)) : cudaErrorInvalidResourceHandle);
}

cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	RT_CALL(rt_driver.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}
