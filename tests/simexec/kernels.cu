// The kernels that the tests of modules, launches, graphs and checkpoints load.
#include <assert.h>
#include <cooperative_groups.h>
#include <cuda_runtime.h>
#include <stdio.h>

namespace cg = cooperative_groups;

extern "C" {
__device__ int counter = 5;
__constant__ float table[4] = {1, 2, 3, 4};

__global__ void empty() {}

__global__ void add(int *p, int n, int by)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		p[i] += by;
}

__global__ void scale(float *p) { p[threadIdx.x] *= table[threadIdx.x & 3]; }

__global__ void say(int n) { printf("thread %d of %d: %s %.2f\n", threadIdx.x, n, "text", n * 0.5); }

__global__ void countdown(cudaGraphConditionalHandle condition, int *p)
{
	int left = --*p;
	cudaGraphSetConditional(condition, left > 0);
}

__global__ void choose(cudaGraphConditionalHandle condition, unsigned value)
{
	cudaGraphSetConditional(condition, value);
}

__global__ void wild(int *p) { *p = 1; }

__global__ void crooked(char *p) { *(int *)(p + 1) = 1; }

__global__ void stop() { __trap(); }

__global__ void hold(int v) { assert(v == 0); }

__global__ void bump(int by) { atomicAdd(&counter, by); }

__global__ void dynamic(int *p)
{
	extern __shared__ int shared[];
	shared[threadIdx.x] = threadIdx.x;
	__syncthreads();
	if (threadIdx.x == 0) {
		int sum = 0;
		for (unsigned i = 0; i < blockDim.x; i++)
			sum += shared[i];
		*p = sum;
	}
}

__global__ void meet(int *p)
{
	if (threadIdx.x == 0)
		atomicAdd(p, 1);
	cg::this_grid().sync();
	if (threadIdx.x == 0 && *(volatile int *)p != (int)gridDim.x)
		atomicAdd(p + 1, 1);
}

__global__ void __launch_bounds__(64) narrow(int *p) { *p = blockDim.x; }

__global__ void wait_for(volatile int *p)
{
	while (!*p)
		;
}

__global__ void heap(int *p)
{
	int *mine = (int *)malloc(64 * sizeof *mine);
	if (mine)
		mine[3] = 7;
	*p = mine ? mine[3] : -1;
	free(mine);
}

struct wide_argument {
	int v[100];
};

__global__ void wide(wide_argument argument, int *p)
{
	int sum = 0;
	for (int i = 0; i < 100; i++)
		sum += argument.v[i];
	*p = sum;
}
}
