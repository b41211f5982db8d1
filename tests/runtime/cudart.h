// Assertions and helpers of the runtime's conformance programs. One thread. Include it in exactly one file of a
// program.
#pragma once

#include <cuda_runtime_api.h>

#define RESULT cudaError_t
static inline const char *result_name(cudaError_t result)
{
	return cudaGetErrorName(result);
}

#include "../conformance/differences.h"

#include "kernels.h"

#define run_child(name, argument)                                                            \
	do {                                                                                 \
		int status_ = wait_child(start_child(name, argument));                       \
		assertions++;                                                                \
		if (status_ != 0)                                                            \
			differ(__FILE__, __LINE__, "child %s ended with %d", name, status_); \
	} while (0)

// Checks that the call returns this result, and that it becomes the thread's last error.
#define GIVES_LAST(call, want)                          \
	do {                                            \
		GIVES(call, want);                      \
		GIVES(cudaPeekAtLastError(), want);     \
		GIVES(cudaGetLastError(), want);        \
		GIVES(cudaGetLastError(), cudaSuccess); \
	} while (0)

static inline cudaError_t launch_with(const void *kernel, unsigned blocks, unsigned threads, void **arguments,
				      cudaStream_t stream)
{
	return cudaLaunchKernel(kernel, (dim3){blocks, 1, 1}, (dim3){threads, 1, 1}, arguments, 0, stream);
}

static inline int read_int(const int *from)
{
	int value = -1;

	NEED(cudaMemcpy(&value, from, sizeof value, cudaMemcpyDeviceToHost));
	return value;
}

static inline int *need_ints(size_t count)
{
	int *made = NULL;

	NEED(cudaMalloc((void **)&made, count * sizeof(int)));
	NEED(cudaMemset(made, 0, count * sizeof(int)));
	return made;
}
