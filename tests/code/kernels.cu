// Kernels for tests of cubins. They call functions that have sections of their own, call by address, and call functions
// of the driver.
#include <cstdio>
#include <mma.h>

using namespace nvcuda;

__device__ void multiply(const half *a, float *c)
{
	wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
	wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
	wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;

	wmma::fill_fragment(sum, 0);
	wmma::load_matrix_sync(x, a, 16);
	wmma::load_matrix_sync(y, a, 16);
	wmma::mma_sync(sum, x, y, sum);
	wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}

__device__ __noinline__ int fibonacci(int n)
{
	return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

extern "C" __global__ void tensor(const half *a, float *c) { multiply(a, c); }

extern "C" __global__ void plain(int *to) { *to = fibonacci(*to); }

extern "C" __global__ void prints(int *to)
{
	printf("%d\n", *to);
	free(malloc(*to));
}
