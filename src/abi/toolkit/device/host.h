// What C++ programs call on the host: the runtime's functions with the types of C++, and the functions that clang calls
// for a launch.
#pragma once
#include "../cuda_runtime_api.h"
#include "language.h"

extern "C" {
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
// clang calls a function of this name for each launch.
#undef cudaLaunchKernel
inline __attribute__((visibility("hidden"))) cudaError_t
cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
	return cudaLaunchKernel_ptsz(kernel, grid, block, arguments, shared, stream);
}
#endif
}

template <typename T> static inline cudaError_t cudaMalloc(T **address, size_t size)
{
	return cudaMalloc((void **)address, size);
}
template <typename T> static inline cudaError_t cudaMallocHost(T **address, size_t size)
{
	return cudaMallocHost((void **)address, size);
}
template <typename T>
static inline cudaError_t cudaMallocManaged(T **address, size_t size, unsigned int flags = cudaMemAttachGlobal)
{
	return cudaMallocManaged((void **)address, size, flags);
}
template <typename T> static inline cudaError_t cudaMallocAsync(T **address, size_t size, cudaStream_t stream)
{
	return cudaMallocAsync((void **)address, size, stream);
}
template <typename T>
static inline cudaError_t cudaMemcpyToSymbol(const T &symbol, const void *from, size_t size, size_t offset = 0,
					     cudaMemcpyKind kind = cudaMemcpyHostToDevice)
{
	return cudaMemcpyToSymbol((const void *)&symbol, from, size, offset, kind);
}
template <typename T>
static inline cudaError_t cudaMemcpyFromSymbol(void *to, const T &symbol, size_t size, size_t offset = 0,
					       cudaMemcpyKind kind = cudaMemcpyDeviceToHost)
{
	return cudaMemcpyFromSymbol(to, (const void *)&symbol, size, offset, kind);
}
