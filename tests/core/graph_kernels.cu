// The kernels of the tests of graphs.
#include <cuda_runtime.h>

extern "C" {
__global__ void add_one(int *p) { atomicAdd(p, 1); }

__global__ void affine(int *p, int m, int b) { *p = *p * m + b; }

__global__ void combine(int *r, const int *a, const int *b) { *r = (*a << 16) | (*b & 0xffff); }

__global__ void set_condition(cudaGraphConditionalHandle condition, unsigned value)
{
	cudaGraphSetConditional(condition, value);
}

// Decrements the number, and ends the loop when the number is 0.
__global__ void count_down(cudaGraphConditionalHandle condition, int *left)
{
	cudaGraphSetConditional(condition, --*left > 0);
}
}
