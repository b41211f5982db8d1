// Implements the functions for stream-ordered memory, and prefetches of managed memory. Compiled twice, for the legacy
// and the per-thread default stream.
#include "runtime.h"

_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "locations are passed unchanged");

cudaError_t CUDARTAPI cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
	RT_CALL(RT_PTSZ(cuMemAllocAsync)((CUdeviceptr *)devPtr, size, hStream));
}

cudaError_t CUDARTAPI cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
	RT_CALL(RT_PTSZ(cuMemFreeAsync)((CUdeviceptr)devPtr, hStream));
}

cudaError_t CUDARTAPI cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuMemAllocFromPoolAsync)((CUdeviceptr *)ptr, size, memPool, stream));
}

cudaError_t CUDARTAPI cudaMemPrefetchAsync(const void *devPtr, size_t count, struct cudaMemLocation location,
					   unsigned int flags, cudaStream_t stream)
{
	const CUmemLocation to = {.type = (CUmemLocationType)location.type, .id = location.id};

	RT_CALL(RT_PTSZ(cuMemPrefetchAsync_v2)((CUdeviceptr)devPtr, count, to, flags, stream));
}

cudaError_t CUDARTAPI cudaMemPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count,
						struct cudaMemLocation *prefetchLocs, size_t *prefetchLocIdxs,
						size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuMemPrefetchBatchAsync)((CUdeviceptr *)dptrs, sizes, count, (CUmemLocation *)prefetchLocs,
						 prefetchLocIdxs, numPrefetchLocs, flags, stream));
}

cudaError_t CUDARTAPI cudaMemDiscardBatchAsync(void **dptrs, size_t *sizes, size_t count, unsigned long long flags,
					       cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuMemDiscardBatchAsync)((CUdeviceptr *)dptrs, sizes, count, flags, stream));
}

cudaError_t CUDARTAPI cudaMemDiscardAndPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count,
							  struct cudaMemLocation *prefetchLocs, size_t *prefetchLocIdxs,
							  size_t numPrefetchLocs, unsigned long long flags,
							  cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuMemDiscardAndPrefetchBatchAsync)((CUdeviceptr *)dptrs, sizes, count,
							   (CUmemLocation *)prefetchLocs, prefetchLocIdxs,
							   numPrefetchLocs, flags, stream));
}

cudaError_t CUDARTAPI cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length, unsigned int flags)
{
	RT_CALL(RT_PTSZ(cuStreamAttachMemAsync)(stream, (CUdeviceptr)devPtr, length, flags));
}
