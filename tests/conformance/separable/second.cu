// Defines what first.cu uses, and uses the static library, too.
#include "separable.h"

__device__ int shared_counter = 40;
__constant__ int shared_constants[3] = {4, 5, 6};
static __device__ int hidden = 2;

static __device__ int own(int x)
{
	return x * 100 + hidden;
}

__device__ int second_own(int x)
{
	return own(x);
}

__device__ int twice(int x)
{
	return 2 * x;
}

__device__ int (*table[2])(int) = {twice, library_square};

__device__ int through_table(int x)
{
	return table[x & 1](x) + table[(x + 1) & 1](x);
}

extern "C" __global__ void second(int *out)
{
	out[0] = shared_counter;
	out[1] = common_function<3>(6);
	out[2] = library_calls();
}
