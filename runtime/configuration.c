// The launch configuration between `kernel<<<…>>>` and the stub of the kernel. One stack a thread: an argument of a
// launch may itself launch.
#include "generated.h"
#include "register.h"

enum { MOST_NESTED = 64 };

struct configuration {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
};

static _Thread_local struct configuration stack[MOST_NESTED];
static _Thread_local int depth;

unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, cudaStream_t stream)
{
	if (depth == MOST_NESTED)
		return rt_record(cudaErrorLaunchOutOfResources);
	stack[depth++] = (struct configuration){gridDim, blockDim, sharedMem, stream};
	return 0;
}

cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem, void *stream)
{
	if (depth == 0)
		return rt_record(cudaErrorMissingConfiguration);
	const struct configuration *top = &stack[--depth];
	*gridDim = top->grid;
	*blockDim = top->block;
	*sharedMem = top->shared;
	*(cudaStream_t *)stream = top->stream;
	return cudaSuccess;
}

// Called once for each kernel and kept by the program. A symbol whose image cannot be loaded now is given as its
// address plus one, so that each launch tries again and reports the error.
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *kernel, const void *entryFuncAddr)
{
	struct rt_symbol *symbol = rt_table_find(entryFuncAddr);
	CUkernel found;

	if (!symbol || symbol->kind != RT_FUNCTION)
		return cudaErrorInvalidDeviceFunction; // the launch records it
	if (rt_kernel_of(symbol, &found) == cudaSuccess)
		*kernel = (cudaKernel_t)found;
	else
		*kernel = (cudaKernel_t)((char *)symbol + 1);
	return cudaSuccess;
}
