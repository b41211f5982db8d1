#include <cuda_runtime.h>

// Halves *value, rounded up, and sets the condition while it is more than 1.
extern "C" __global__ void halve(cudaGraphConditionalHandle again, unsigned *value, unsigned *steps)
{
	*value = (*value + 1) / 2;
	++*steps;
	cudaGraphSetConditional(again, *value > 1);
}
