// Computes matrix products, C = epilogue(alpha * A * B + beta * C), and convolutions, which are such products. Each
// thread block computes a tile of C. For this it loads slices of A and B into shared memory. Each thread computes a
// square of the tile in registers, while the next slices are being loaded.
#include "multiply.h"
#include "number.cuh"

// DEPTH: how many columns of A, and rows of B, a slice has. SIDE: the number of threads along a side of a tile. The two
// must be equal: at the end, SIDE rows of results are stored in `slice_b`, which has DEPTH rows.
enum { DEPTH = 16, SIDE = 16 };

template <typename W> struct __align__(16) four {
	W v[4];
};

// The position of a tile among all tiles of all products.
struct tile_position {
	uint64_t product, row, column;
};

template <int TILE> INLINE tile_position find_tile(uint64_t tile, uint64_t m, uint64_t n)
{
	uint64_t across = (n + TILE - 1) / TILE, down = (m + TILE - 1) / TILE;

	return {tile / (across * down), tile / across % down * TILE, tile % across * TILE};
}

// A matrix B in memory. A thread reads one column only.
template <typename T> struct matrix {
	const T *column;
	uint64_t n, k;

	INLINE matrix make(const multiply_parameters &p, uint64_t product, uint64_t column)
	{
		const T *b = (const T *)p.b + product * p.stride_b;
		return {b + column, p.n, column < p.n ? p.k : 0};
	}

	INLINE const T *filters(const multiply_parameters &p, uint64_t product)
	{
		return (const T *)p.a + product * p.stride_a;
	}

	INLINE const T *bias(const multiply_parameters &p, const T *bias, uint64_t product, uint64_t row,
			     uint64_t column)
	{
		return bias + column;
	}

	__device__ __forceinline__ typename wide<T>::type at(uint64_t row) const
	{
		return row < k ? widen(column[row * n]) : 0;
	}
};

// The matrix B of a convolution. It has a column for each position of the output, and a row for each weight of a
// filter.
template <typename T> struct image {
	const T *input; // input of the group's first channel
	const convolve_parameters &p;
	uint32_t k;
	int64_t y, x; // where the filter's first weight lies in the image

	INLINE image make(const convolve_parameters &p, uint64_t product, uint64_t column)
	{
		uint64_t y = column / p.output_width, x = column % p.output_width;
		return {(const T *)p.input + product * p.channels * p.height * p.width, p,
			column < p.n ? (uint32_t)p.k : 0, (int64_t)(y * p.stride[0]) - p.padding[0],
			(int64_t)(x * p.stride[1]) - p.padding[1]};
	}

	INLINE const T *filters(const convolve_parameters &p, uint64_t product)
	{
		return (const T *)p.filter + product % p.groups * p.m * p.k;
	}

	INLINE const T *bias(const convolve_parameters &p, const T *bias, uint64_t product, uint64_t row,
			     uint64_t column)
	{
		return bias + product % p.groups * p.m + row;
	}

	__device__ __forceinline__ typename wide<T>::type at(uint64_t row) const
	{
		if (row >= k)
			return 0;
		uint32_t weight = (uint32_t)row, line = weight / p.kernel_width, s = weight % p.kernel_width;
		uint32_t channel = line / p.kernel_height, r = line % p.kernel_height;
		int64_t at_y = y + (int64_t)r * p.dilation[0], at_x = x + (int64_t)s * p.dilation[1];
		if (at_y < 0 || at_y >= p.height || at_x < 0 || at_x >= p.width)
			return 0;
		return widen(input[((uint64_t)channel * p.height + at_y) * p.width + at_x]);
	}
};

// Stores one element of C.
template <typename T, typename W>
INLINE void finish(const multiply_result &result, T *c, const T *bias, W alpha, W beta, W sum)
{
	W value = alpha * sum;

	if (beta != 0)
		value += beta * widen(*c);
	if (bias)
		value += widen(*bias);
	if (result.epilogue == MULTIPLY_RELU)
		value = value <= 0 ? 0 : value;
	else if (result.epilogue == MULTIPLY_GELU)
		value = gelu(value);
	narrow(value, *c);
}

// Loads and converts a thread's elements of the next slices. Elements outside the matrices are zero.
template <typename T, int EACH, int A_STEP, int B_STEP, typename SOURCE, typename W>
INLINE void fetch(const T *a, int a_rows, bool a_here, uint64_t k, const SOURCE &b, uint64_t b_row, W next_a[EACH],
		  W next_b[EACH])
{
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		next_a[i] = i * A_STEP < a_rows && a_here ? widen(*a) : (W)0;
		next_b[i] = b.at(b_row + i * B_STEP);
		a += A_STEP * k;
	}
}

// Computes tiles of all products, one after another. Each thread computes MICRO rows and MICRO columns of a tile. The
// rows, and also the columns, of a thread are groups of 4 adjacent ones. Its groups are 4 * SIDE apart, so that
// neighbouring threads read neighbouring words of shared memory. SOURCE is struct matrix or struct image: it locates A
// and the bias in memory, and reads B.
template <typename T, int MICRO, typename SOURCE, typename PARAMETERS> INLINE void multiply(const PARAMETERS &p)
{
	typedef typename wide<T>::type W;
	const int tile_side = SIDE * MICRO, each = DEPTH * tile_side / MULTIPLY_THREADS;
	const int a_step = MULTIPLY_THREADS / DEPTH, b_step = MULTIPLY_THREADS / tile_side;
	__shared__ __align__(16) W slice_a[DEPTH][tile_side + 4], slice_b[DEPTH][tile_side];
	const int thread = threadIdx.x, tx = thread % SIDE, ty = thread / SIDE;
	const int a_row = thread / DEPTH, a_depth = thread % DEPTH;
	const int b_column = thread % tile_side, b_depth = thread / tile_side;
	const W alpha = (W)p.result.alpha, beta = (W)p.result.beta;
	const uint64_t k = alpha == 0 ? 0 : p.k;
	const uint64_t tiles = (p.m + tile_side - 1) / tile_side * ((p.n + tile_side - 1) / tile_side) * p.batch;

	for (uint64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
		const tile_position at = find_tile<tile_side>(tile, p.m, p.n);
		const SOURCE b = SOURCE::make(p, at.product, at.column + b_column);
		const T *a = SOURCE::filters(p, at.product) + (at.row + a_row) * p.k + a_depth;
		const int a_rows = (int)min(p.m - at.row, (uint64_t)tile_side) - a_row;
		W next_a[each], next_b[each], sum[MICRO][MICRO] = {};

		if (k > 0)
			fetch<T, each, a_step, b_step>(a, a_rows, a_depth < k, p.k, b, b_depth, next_a, next_b);
#pragma unroll 1
		for (uint64_t from = 0; from < k;) {
#pragma unroll
			for (int i = 0; i < each; i++) {
				slice_a[a_depth][a_row + i * a_step] = next_a[i];
				slice_b[b_depth + i * b_step][b_column] = next_b[i];
			}
			__syncthreads();
			from += DEPTH;
			if (from < k)
				fetch<T, each, a_step, b_step>(a + from, a_rows, from + a_depth < k, p.k, b,
							       from + b_depth, next_a, next_b);
#pragma unroll 4
			for (int depth = 0; depth < DEPTH; depth++) {
				four<W> left[MICRO / 4], right[MICRO / 4];
#pragma unroll
				for (int i = 0; i < MICRO / 4; i++) {
					left[i] = *(const four<W> *)&slice_a[depth][i * 4 * SIDE + ty * 4];
					right[i] = *(const four<W> *)&slice_b[depth][i * 4 * SIDE + tx * 4];
				}
#pragma unroll
				for (int i = 0; i < MICRO; i++)
#pragma unroll
					for (int j = 0; j < MICRO; j++)
						sum[i][j] += left[i / 4].v[i % 4] * right[j / 4].v[j % 4];
			}
			__syncthreads();
		}
		T *c = (T *)p.result.c + at.product * p.result.stride;
		const T *bias = (const T *)p.result.bias;
		// Copies one row of each thread at a time to shared memory, and from there to C, so that neighbouring
		// threads write neighbouring elements of C.
#pragma unroll
		for (int i = 0; i < MICRO; i++) {
#pragma unroll
			for (int j = 0; j < MICRO; j++)
				slice_b[ty][j / 4 * 4 * SIDE + tx * 4 + j % 4] = sum[i][j];
			__syncthreads();
			uint64_t first = at.row + i / 4 * 4 * SIDE + i % 4, column = at.column + b_column;
#pragma unroll 1
			for (int y = b_depth; y < SIDE && column < p.n; y += b_step)
				if (first + y * 4 < p.m)
					finish(p.result, c + (first + y * 4) * p.n + column,
					       bias ? SOURCE::bias(p, bias, at.product, first + y * 4, column) : bias,
					       alpha, beta, slice_b[y][b_column]);
			__syncthreads();
		}
	}
}

#define KERNELS(T, size, micro)                                                                                        \
	extern "C" __global__ void __launch_bounds__(MULTIPLY_THREADS, 2)                                              \
		virgate_multiply_##T##_##size(const __grid_constant__ multiply_parameters p)                           \
	{                                                                                                              \
		multiply<T, micro, matrix<T>>(p);                                                                      \
	}                                                                                                              \
	extern "C" __global__ void __launch_bounds__(MULTIPLY_THREADS, 2)                                              \
		virgate_convolve_##T##_##size(const __grid_constant__ convolve_parameters p)                           \
	{                                                                                                              \
		multiply<T, micro, image<T>>(p);                                                                       \
	}
typedef float f32;
typedef double f64;
KERNELS(f32, small, 4)
KERNELS(f32, large, 8)
KERNELS(f16, small, 4)
KERNELS(f16, large, 8)
KERNELS(bf16, small, 4)
KERNELS(bf16, large, 8)
KERNELS(f64, small, 4)
