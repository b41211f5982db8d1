// Overloads runtime functions for C++: they accept a kernel, or an instance of a kernel template, instead of a pointer
// to void. Also overloads other functions that have another form in C++.
#pragma once
#include "host.h"

#define KERNEL ((const void *)kernel)

// Attributes

template <typename T> static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, T *kernel)
{
	return cudaFuncGetAttributes(attributes, KERNEL);
}
template <typename T> static inline cudaError_t cudaFuncSetAttribute(T *kernel, cudaFuncAttribute attribute, int value)
{
	return cudaFuncSetAttribute(KERNEL, attribute, value);
}
template <typename T> static inline cudaError_t cudaFuncSetCacheConfig(T *kernel, cudaFuncCache config)
{
	return cudaFuncSetCacheConfig(KERNEL, config);
}
template <typename T> static inline cudaError_t cudaFuncSetSharedMemConfig(T *kernel, cudaSharedMemConfig config)
{
	return cudaFuncSetSharedMemConfig(KERNEL, config);
}
template <typename T> static inline cudaError_t cudaFuncGetName(const char **name, T *kernel)
{
	return cudaFuncGetName(name, KERNEL);
}
template <typename T> static inline cudaError_t cudaGetKernel(cudaKernel_t *handle, T *kernel)
{
	return cudaGetKernel(handle, KERNEL);
}

// Launches

template <typename T>
static inline cudaError_t cudaLaunchKernel(T *kernel, dim3 grid, dim3 block, void **arguments, size_t shared = 0,
					   cudaStream_t stream = 0)
{
	return cudaLaunchKernel(KERNEL, grid, block, arguments, shared, stream);
}
template <typename T>
static inline cudaError_t cudaLaunchCooperativeKernel(T *kernel, dim3 grid, dim3 block, void **arguments,
						      size_t shared = 0, cudaStream_t stream = 0)
{
	return cudaLaunchCooperativeKernel(KERNEL, grid, block, arguments, shared, stream);
}

namespace virgate
{
// Converts the arguments to the types of the kernel's parameters, and launches the kernel. The NULL at the end of the
// array keeps it nonempty for kernels without parameters.
template <typename... Parameters> struct launch {
	static inline cudaError_t with(const cudaLaunchConfig_t *config, const void *kernel, Parameters... parameters)
	{
		void *addresses[] = {(void *)__builtin_addressof(parameters)..., nullptr};
		return cudaLaunchKernelExC(config, kernel, addresses);
	}
};
} // namespace virgate

template <typename... Parameters, typename... Arguments>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
					     Arguments &&...arguments)
{
	return virgate::launch<Parameters...>::with(config, KERNEL, static_cast<Arguments &&>(arguments)...);
}
// Launches a kernel of a library. The arguments must have the types of its parameters.
template <typename... Arguments>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, const cudaKernel_t kernel,
					     Arguments &&...arguments)
{
	void *addresses[] = {(void *)__builtin_addressof(arguments)..., nullptr};
	return cudaLaunchKernelExC(config, KERNEL, addresses);
}

// Occupancy

template <typename T>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, T kernel, int threads,
									size_t shared)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, KERNEL, threads, shared);
}
template <typename T>
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, T kernel, int threads,
										 size_t shared, unsigned int flags)
{
	return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, KERNEL, threads, shared, flags);
}
template <typename T>
static inline cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *shared, T *kernel, int blocks, int threads)
{
	return cudaOccupancyAvailableDynamicSMemPerBlock(shared, KERNEL, blocks, threads);
}
template <typename T>
static inline cudaError_t cudaOccupancyMaxPotentialClusterSize(int *blocks, T *kernel, const cudaLaunchConfig_t *config)
{
	return cudaOccupancyMaxPotentialClusterSize(blocks, KERNEL, config);
}
template <typename T>
static inline cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, T *kernel, const cudaLaunchConfig_t *config)
{
	return cudaOccupancyMaxActiveClusters(clusters, KERNEL, config);
}

// Finds the block size with the most resident threads on a multiprocessor; of equally good sizes, the largest. Also
// returns how many blocks fill the device. `shared` returns the dynamic shared memory of a block of a given size.
// `limit` is the largest block size, 0 for no limit. Both results are 0 if no block fits.
template <typename Shared, typename T>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(int *ret_grid, int *ret_block,
										  T kernel, Shared shared,
										  int limit = 0, unsigned int flags = 0)
{
	int device, multiprocessors, resident, warp, most = 0;
	cudaFuncAttributes attributes;
	cudaError_t error;

	if (!ret_grid || !ret_block || !kernel)
		return cudaErrorInvalidValue;
	*ret_grid = *ret_block = 0;
	if ((error = cudaGetDevice(&device)) != cudaSuccess ||
	    (error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device)) != cudaSuccess ||
	    (error = cudaDeviceGetAttribute(&resident, cudaDevAttrMaxThreadsPerMultiProcessor, device)) !=
		    cudaSuccess ||
	    (error = cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, device)) != cudaSuccess ||
	    (error = cudaFuncGetAttributes(&attributes, KERNEL)) != cudaSuccess)
		return error;
	if (limit == 0 || limit > attributes.maxThreadsPerBlock)
		limit = attributes.maxThreadsPerBlock;
	for (int rounded = (limit + warp - 1) / warp * warp; rounded > 0 && most < resident; rounded -= warp) {
		int block = rounded < limit ? rounded : limit, blocks;
		error = cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, KERNEL, block, shared(block),
									       flags);
		if (error != cudaSuccess)
			return error;
		if (blocks * block > most) {
			most = blocks * block;
			*ret_grid = blocks * multiprocessors;
			*ret_block = block;
		}
	}
	return cudaSuccess;
}
template <typename Shared, typename T>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int *grid, int *block, T kernel, Shared shared,
									 int limit = 0)
{
	return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(grid, block, kernel, shared, limit);
}
template <typename T>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, T kernel,
								      size_t shared = 0, int limit = 0,
								      unsigned int flags = 0)
{
	return cudaOccupancyMaxPotentialBlockSizeVariableSMemWithFlags(
		grid, block, kernel, [shared](int) { return shared; }, limit, flags);
}
template <typename T>
static inline cudaError_t cudaOccupancyMaxPotentialBlockSize(int *grid, int *block, T kernel, size_t shared = 0,
							     int limit = 0)
{
	return cudaOccupancyMaxPotentialBlockSizeWithFlags(grid, block, kernel, shared, limit);
}
#undef KERNEL

// Events and graphs

static inline cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags)
{
	return cudaEventCreateWithFlags(event, flags);
}
// The last three parameters are ignored.
static inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *instance, cudaGraph_t graph, cudaGraphNode_t *, char *,
					       size_t)
{
	return cudaGraphInstantiate(instance, graph);
}
