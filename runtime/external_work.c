// Implements the functions that use semaphores of other interfaces in stream order. Compiled twice, for the legacy and
// the per-thread default stream.
#include "runtime.h"

_Static_assert(sizeof(struct cudaExternalSemaphoreSignalParams) == sizeof(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS),
	       "passed unchanged");
_Static_assert(sizeof(struct cudaExternalSemaphoreWaitParams) == sizeof(CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS),
	       "passed unchanged");

cudaError_t CUDARTAPI cudaSignalExternalSemaphoresAsync(const cudaExternalSemaphore_t *extSemArray,
							const struct cudaExternalSemaphoreSignalParams *paramsArray,
							unsigned int numExtSems, cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuSignalExternalSemaphoresAsync)((const CUexternalSemaphore *)extSemArray,
							 (const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *)paramsArray,
							 numExtSems, stream));
}

cudaError_t CUDARTAPI cudaWaitExternalSemaphoresAsync(const cudaExternalSemaphore_t *extSemArray,
						      const struct cudaExternalSemaphoreWaitParams *paramsArray,
						      unsigned int numExtSems, cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuWaitExternalSemaphoresAsync)((const CUexternalSemaphore *)extSemArray,
						       (const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *)paramsArray,
						       numExtSems, stream));
}
