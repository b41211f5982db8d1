// Passes the launch configuration from `kernel<<<…>>>` to the function that nvcc generates for the kernel. Each thread
// has a stack of configurations, because an argument of a launch may itself contain a launch.
#include <stdlib.h>

#include "generated.h"
#include "register.h"

struct configuration {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
};

static _Thread_local struct configuration *stack;
static _Thread_local int depth, capacity;
static pthread_key_t stack_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

static void create_key(void)
{
	pthread_key_create(&stack_key, free);
}

static bool grow_stack(void)
{
	int more = capacity ? 2 * capacity : 8;
	struct configuration *grown = realloc(stack, (size_t)more * sizeof *grown);

	if (!grown)
		return false;
	stack = grown;
	capacity = more;
	pthread_once(&stack_once, create_key);
	pthread_setspecific(stack_key, grown); // the stack is freed when the thread ends
	return true;
}

unsigned CUDARTAPI __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, cudaStream_t stream)
{
	if (depth == capacity && !grow_stack())
		return rt_record(cudaErrorMemoryAllocation);
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

// Returns the handle of a kernel. nvcc's code calls it once for each kernel, and keeps the handle. If the image cannot
// be loaded now, the handle is the symbol's address plus one: each launch tries again and reports the error.
cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t *kernel, const void *entryFuncAddr)
{
	struct rt_symbol *symbol = rt_table_find(entryFuncAddr);
	CUkernel found;

	if (!symbol || symbol->kind != RT_FUNCTION)
		return cudaErrorInvalidDeviceFunction; // the launch stores the error as the thread's last one
	if (rt_symbol_kernel(symbol, &found) == cudaSuccess)
		*kernel = (cudaKernel_t)found;
	else
		*kernel = (cudaKernel_t)((char *)symbol + 1);
	return cudaSuccess;
}
