// Kernels of the corpus that multiply matrices with nvcuda::wmma, and with inline ldmatrix and mma.sync. All elements
// are small integers, so that every order of the sums gives the same bits. The input has four bits for each element:
// first A by rows, then B by columns.
#include <mma.h>

#include "corpus.cuh"
#include "matrix.h"

using namespace nvcuda;

static __device__ __forceinline__ int element(const unsigned *in, unsigned matrix, unsigned row, unsigned k)
{
	return MATRIX_ELEMENT(in, matrix, row, k);
}

// Multiplies matrices of halves. One warp computes each tile of 16 by 16 elements. It copies the tiles of A and B to
// shared memory first.
KERNEL(matrix_halves)
{
	__shared__ __align__(32) half a[16 * 16], b[16 * 16];
	wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
	wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
	wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;

	wmma::fill_fragment(sum, 0.0f);
	for (unsigned k = 0; k < MATRIX_SIZE; k += 16) {
		for (unsigned i = threadIdx.x; i < 256; i += 32) {
			a[i] = __int2half_rn(element(in, 0, blockIdx.y * 16 + i / 16, k + i % 16));
			b[i] = __int2half_rn(element(in, 1, blockIdx.x * 16 + i / 16, k + i % 16));
		}
		__syncwarp();
		wmma::load_matrix_sync(fa, a, 16);
		wmma::load_matrix_sync(fb, b, 16);
		// doubles each element, whatever the layout of the fragment is
		for (unsigned i = 0; i < fa.num_elements; i++)
			fa.x[i] = __hmul(fa.x[i], __int2half_rn(2));
		wmma::mma_sync(sum, fa, fb, sum);
		__syncwarp();
	}
	for (unsigned i = 0; i < sum.num_elements; i++)
		sum.x[i] *= 0.5f;
	wmma::store_matrix_sync((float *)out + blockIdx.y * 16 * MATRIX_SIZE + blockIdx.x * 16, sum, MATRIX_SIZE,
				wmma::mem_row_major);
}

// Multiplies one tile of M by K elements and one of K by N. The kernels below call it for shapes and types that
// matrix_halves does not use.
template <int M, int N, int K, typename T, typename Sum, typename To>
static __device__ void product(const unsigned *in, Sum *out, To to)
{
	__shared__ __align__(32) T a[M * K], b[N * K];
	wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> fa;
	wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::col_major> fb;
	wmma::fragment<wmma::accumulator, M, N, K, Sum> sum;

	for (unsigned i = threadIdx.x; i < M * K; i += 32)
		a[i] = to(element(in, 0, i / K, i % K));
	for (unsigned i = threadIdx.x; i < N * K; i += 32)
		b[i] = to(element(in, 1, i / K, i % K));
	__syncwarp();
	wmma::fill_fragment(sum, (Sum)0);
	wmma::load_matrix_sync(fa, a, K);
	wmma::load_matrix_sync(fb, b, K);
	wmma::mma_sync(sum, fa, fb, sum);
	wmma::store_matrix_sync(out, sum, N, wmma::mem_row_major);
}

KERNEL(matrix_bytes)
{
	product<16, 16, 16, signed char, int>(in, (int *)out, [](int x) { return (signed char)x; });
	product<8, 32, 16, signed char, int>(in, (int *)out + 256, [](int x) { return (signed char)x; });
	product<32, 8, 16, signed char, int>(in, (int *)out + 512, [](int x) { return (signed char)x; });
}

KERNEL(matrix_floats)
{
	product<8, 32, 16, half, float>(in, (float *)out, [](int x) { return __int2half_rn(x); });
	product<32, 8, 16, half, half>(in, (half *)(out + 256), [](int x) { return __int2half_rn(x); });
	product<16, 16, 16, __nv_bfloat16, float>(in, (float *)out + 384, [](int x) { return __int2bfloat16_rn(x); });
}

KERNEL(matrix_doubles)
{
	product<8, 8, 4, double, double>(in, (double *)out, [](int x) { return (double)x; });
}

// Multiplies with ldmatrix from shared memory, and then mma. One warp computes each tile of 16 by 8 elements.
KERNEL(matrix_written_out)
{
	__shared__ __align__(16) half a[16 * 16], b[16 * 8]; // B is stored by rows, so ldmatrix must transpose it
	float d[4] = {0, 0, 0, 0};
	unsigned lane = threadIdx.x;

	for (unsigned k = 0; k < MATRIX_SIZE; k += 16) {
		for (unsigned i = lane; i < 256; i += 32)
			a[i] = __int2half_rn(element(in, 0, blockIdx.y * 16 + i / 16, k + i % 16));
		for (unsigned i = lane; i < 128; i += 32)
			b[i] = __int2half_rn(element(in, 1, blockIdx.x * 8 + i % 8, k + i / 8));
		__syncwarp();
		unsigned x[4], y[2];
		unsigned at_a = (unsigned)__cvta_generic_to_shared(a + lane % 16 * 16 + lane / 16 * 8);
		unsigned at_b = (unsigned)__cvta_generic_to_shared(b + lane % 16 * 8);
		asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
			     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at_a));
		asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
			     : "=r"(y[0]), "=r"(y[1]) : "r"(at_b));
		asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
			     "{%8, %9}, {%0, %1, %2, %3};"
			     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
			     : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
		__syncwarp();
	}
	for (unsigned i = 0; i < 4; i++) {
		unsigned row = blockIdx.y * 16 + lane / 4 + i / 2 * 8, column = blockIdx.x * 8 + lane % 4 * 2 + i % 2;
		((float *)out)[row * MATRIX_SIZE + column] = d[i];
	}
}
