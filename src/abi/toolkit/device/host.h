// The functions that clang calls for a launch.
#pragma once
#include "../cuda_runtime_api.h"
#include "language.h"

extern "C" {
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
// Launches a kernel on the per-thread default stream. The code that clang generates for a launch calls this function.
#undef cudaLaunchKernel
inline __attribute__((visibility("hidden"))) cudaError_t
cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
	return cudaLaunchKernel_ptsz(kernel, grid, block, arguments, shared, stream);
}
#endif
}
