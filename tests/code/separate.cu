// Two translation units, compiled separately and then linked. In such code, a function that several kernels may call
// has a section of its own.
#include <mma.h>

using namespace nvcuda;

#ifdef CALLEE
__device__ void shared_code(const half *a, half *c)
{
	wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
	wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
	wmma::fragment<wmma::accumulator, 16, 16, 16, half> sum;

	wmma::fill_fragment(sum, 0);
	wmma::load_matrix_sync(x, a, 16);
	wmma::load_matrix_sync(y, a, 16);
	wmma::mma_sync(sum, x, y, sum);
	wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
#else
__device__ void shared_code(const half *a, half *c);

extern "C" __global__ void caller(const half *a, half *c) { shared_code(a, c); }
#endif
