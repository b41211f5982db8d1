// Defines the built-in kernels. They compute with float, matrices are row-major, and lengths are uint64_t. Grid and
// thread blocks may have any size and any number of dimensions, because the work is divided among all threads.
// virgate/compute.h documents the parameters.
#include <stdint.h>

#define INLINE static __device__ __forceinline__
#define KERNEL extern "C" __global__ void

INLINE uint32_t block_threads()
{
	return blockDim.x * blockDim.y * blockDim.z;
}

INLINE uint32_t thread_index()
{
	return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

INLINE uint64_t block_count()
{
	return (uint64_t)gridDim.x * gridDim.y * gridDim.z;
}

INLINE uint64_t block_index()
{
	return ((uint64_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}

#define EACH(i, n)                                                                                                     \
	for (uint64_t i = block_index() * block_threads() + thread_index(), stride_ = block_count() * block_threads(); \
	     i < (n); i += stride_)

struct add {
	static __device__ float of(float a, float b)
	{
		return a + b;
	}
	static const uint32_t neutral = 0; // 0.0f
};

struct maximum {
	static __device__ float of(float a, float b)
	{
		return a < b ? b : a;
	}
	static const uint32_t neutral = 0xff800000; // -infinity
};

// Combines the values of all threads of the block. Returns the result in every thread.
template <typename OPERATION> INLINE float combine(float mine)
{
	__shared__ float warps[32];
	uint32_t thread = thread_index(), lane = thread % 32, first = thread - lane;
	uint32_t lanes = block_threads() - first < 32 ? block_threads() - first : 32;
	uint32_t mask = lanes == 32 ? 0xffffffff : (1u << lanes) - 1;

	for (uint32_t distance = 16; distance; distance /= 2) {
		float other = __shfl_down_sync(mask, mine, distance);
		if (lane + distance < lanes)
			mine = OPERATION::of(mine, other);
	}
	__syncthreads(); // other threads may still read the previous result
	if (lane == 0)
		warps[thread / 32] = mine;
	__syncthreads();
	float all = __uint_as_float(OPERATION::neutral);
	for (uint32_t warp = 0; warp < (block_threads() + 31) / 32; warp++)
		all = OPERATION::of(all, warps[warp]);
	return all;
}

KERNEL fill(float *y, float value, uint64_t n)
{
	EACH(i, n)
		y[i] = value;
}

KERNEL copy(const float *x, float *y, uint64_t n)
{
	EACH(i, n)
		y[i] = x[i];
}

KERNEL scale(float a, const float *x, float *y, uint64_t n)
{
	EACH(i, n)
		y[i] = a * x[i];
}

KERNEL axpy(float a, const float *x, float *y, uint64_t n)
{
	EACH(i, n)
		y[i] = a * x[i] + y[i];
}

KERNEL vector_add(const float *a, const float *b, float *c, uint64_t n)
{
	EACH(i, n)
		c[i] = a[i] + b[i];
}

KERNEL vector_multiply(const float *a, const float *b, float *c, uint64_t n)
{
	EACH(i, n)
		c[i] = a[i] * b[i];
}

KERNEL relu(const float *x, float *y, uint64_t n)
{
	EACH(i, n)
		y[i] = x[i] < 0 ? 0 : x[i]; // a NaN stays a NaN
}

KERNEL transpose(const float *x, float *y, uint64_t rows, uint64_t columns)
{
	EACH(i, rows * columns)
		y[i] = x[i % rows * columns + i / rows];
}

KERNEL matrix_multiply(const float *a, const float *b, float *c, uint64_t m, uint64_t n, uint64_t k)
{
	EACH(i, m * n)
	{
		const float *row = a + i / n * k, *column = b + i % n;
		float sum = 0;
		for (uint64_t l = 0; l < k; l++)
			sum += row[l] * column[l * n];
		c[i] = sum;
	}
}

KERNEL reduce_sum(const float *x, float *sum, uint64_t n)
{
	float mine = 0;

	EACH(i, n)
		mine += x[i];
	mine = combine<add>(mine);
	if (thread_index() == 0)
		atomicAdd(sum, mine);
}

KERNEL dot(const float *x, const float *y, float *sum, uint64_t n)
{
	float mine = 0;

	EACH(i, n)
		mine += x[i] * y[i];
	mine = combine<add>(mine);
	if (thread_index() == 0)
		atomicAdd(sum, mine);
}

// Each thread block computes one row.
KERNEL softmax(const float *x, float *y, uint64_t rows, uint64_t columns)
{
	for (uint64_t row = block_index(); row < rows; row += block_count()) {
		const float *from = x + row * columns;
		float *to = y + row * columns, most = __uint_as_float(maximum::neutral), sum = 0;
		for (uint64_t i = thread_index(); i < columns; i += block_threads())
			most = maximum::of(most, from[i]);
		most = combine<maximum>(most);
		for (uint64_t i = thread_index(); i < columns; i += block_threads())
			sum += expf(from[i] - most);
		sum = combine<add>(sum);
		for (uint64_t i = thread_index(); i < columns; i += block_threads())
			to[i] = expf(from[i] - most) / sum;
	}
}
