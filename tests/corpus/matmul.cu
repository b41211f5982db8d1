// Kernels of the corpus that multiply matrices in tiles: in f32, in f64, and bytes with the instruction dp4a.
#include "corpus.cuh"

template <typename T> static __device__ void multiply(const T *a, const T *b, T *c, unsigned n)
{
	__shared__ T left[16][16], right[16][17];
	unsigned row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
	T sum = 0;

	for (unsigned tile = 0; tile < n; tile += 16) {
		left[threadIdx.y][threadIdx.x] = a[row * n + tile + threadIdx.x];
		right[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + column];
		__syncthreads();
#pragma unroll
		for (unsigned k = 0; k < 16; k++)
			sum = fma(left[threadIdx.y][k], right[k][threadIdx.x], sum);
		__syncthreads();
	}
	c[row * n + column] = sum;
}
KERNEL(matmul_f32) { multiply((const float *)in, (const float *)in + n * n, (float *)out, n); }
KERNEL(matmul_f64) { multiply((const double *)in, (const double *)in + n * n, (double *)out, n); }

// Multiplies matrices of bytes, with four bytes in a word. Matrix a is stored by rows, and matrix b by columns.
KERNEL(matmul_bytes)
{
	unsigned row = THREAD / n, column = THREAD % n, words = n / 4;
	int sum = 0;
	unsigned unsigned_sum = 0;

	for (unsigned k = 0; k < words; k++) {
		sum = __dp4a((int)in[row * words + k], (int)in[(n + column) * words + k], sum);
		unsigned_sum = __dp4a(in[row * words + k], in[(n + column) * words + k], unsigned_sum);
		sum = __dp2a_lo((int)in[row * words + k], (int)in[column * words + k], sum);
		unsigned_sum = __dp2a_hi(in[row * words + k], in[column * words + k], unsigned_sum);
	}
	out[2 * THREAD] = (unsigned)sum;
	out[2 * THREAD + 1] = unsigned_sum;
}
