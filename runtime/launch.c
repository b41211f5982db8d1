// Implements the functions that launch kernels. Compiled twice, for the legacy and the per-thread default stream.
#include "generated.h"
#include "register.h"

static cudaError_t launch_kernel(CUkernel kernel, dim3 grid, dim3 block, void **args, size_t shared,
				 cudaStream_t stream)
{
	if (shared > UINT32_MAX)
		return cudaErrorInvalidValue;
	return rt_error(RT_PTSZ(cuLaunchKernel)((CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y, block.z,
						(unsigned)shared, stream, args, NULL));
}

static cudaError_t launch_function(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
				   cudaStream_t stream)
{
	CUkernel kernel;

	RT_TRY(rt_kernel_find(function, &kernel));
	return launch_kernel(kernel, grid, block, args, shared, stream);
}

cudaError_t CUDARTAPI cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
				       cudaStream_t stream)
{
	RT_CALL(launch_function(func, gridDim, blockDim, args, sharedMem, stream));
}

static cudaError_t launch_handle(cudaKernel_t handle, dim3 grid, dim3 block, void **args, size_t shared,
				 cudaStream_t stream)
{
	CUkernel kernel = (CUkernel)handle;

	if (!handle)
		return cudaErrorInvalidDeviceFunction;
	if ((uintptr_t)handle & 1) // see __cudaGetKernel()
		RT_TRY(rt_symbol_kernel((struct rt_symbol *)((char *)handle - 1), &kernel));
	return launch_kernel(kernel, grid, block, args, shared, stream);
}

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define LAUNCH_HANDLE __cudaLaunchKernel_ptsz
#else
#define LAUNCH_HANDLE __cudaLaunchKernel
#endif

cudaError_t CUDARTAPI LAUNCH_HANDLE(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
				    cudaStream_t stream)
{
	RT_CALL(launch_handle(kernel, gridDim, blockDim, args, sharedMem, stream));
}

static cudaError_t launch_cooperative(const void *function, dim3 grid, dim3 block, void **args, size_t shared,
				      cudaStream_t stream)
{
	CUkernel kernel;

	RT_TRY(rt_kernel_find(function, &kernel));
	if (shared > UINT32_MAX)
		return cudaErrorInvalidValue;
	return rt_error(RT_PTSZ(cuLaunchCooperativeKernel)((CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y,
							   block.z, (unsigned)shared, stream, args));
}

cudaError_t CUDARTAPI cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
						  size_t sharedMem, cudaStream_t stream)
{
	RT_CALL(launch_cooperative(func, gridDim, blockDim, args, sharedMem, stream));
}

static cudaError_t launch_ex(const cudaLaunchConfig_t *config, const void *function, void **args)
{
	CUlaunchConfig given;
	CUkernel kernel;

	if (!config)
		return cudaErrorInvalidValue;
	RT_TRY(rt_kernel_find(function, &kernel));
	RT_TRY(rt_launch_config(config, &given));
	return rt_error(RT_PTSZ(cuLaunchKernelEx)(&given, (CUfunction)kernel, args, NULL));
}

cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
	RT_CALL(launch_ex(config, func, args));
}

cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
	RT_CALL(RT_PTSZ(cuLaunchHostFunc)(stream, fn, userData));
}
