// Computes activation functions: element-wise ones, and softmax over channels.
#include "activation.h"
#include "number.cuh"

template <int KIND, typename W> INLINE W activate(W x, W alpha)
{
	switch (KIND) { // comparisons with a NaN are false, so a NaN stays a NaN
	case ACTIVATION_RELU:
		return x <= 0 ? 0 : x;
	case ACTIVATION_LEAKY_RELU:
		return x <= 0 ? alpha * x : x;
	case ACTIVATION_ELU:
		return x <= 0 ? alpha * expm1(x) : x;
	case ACTIVATION_GELU:
		return gelu(x);
	case ACTIVATION_SILU:
		return times_sigmoid(x, x);
	case ACTIVATION_SIGMOID:
		return sigmoid(x);
	default:
		return tanh(x);
	}
}

// The elements that a thread loads or stores in one access.
template <typename T> struct __align__(ACTIVATION_BYTES) vector {
	T element[ACTIVATION_BYTES / sizeof(T)];
};

template <typename T, int KIND> INLINE void run(const activation_parameters &p)
{
	typedef typename wide<T>::type W;
	const int width = ACTIVATION_BYTES / sizeof(T);
	const uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
	const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
	const uint64_t vectors = (p.input | p.output) % ACTIVATION_BYTES ? 0 : p.count / width;
	const W alpha = (W)p.alpha;

	for (uint64_t i = thread; i < vectors; i += threads) {
		vector<T> some = ((const vector<T> *)p.input)[i];
#pragma unroll
		for (int j = 0; j < width; j++)
			narrow(activate<KIND>(widen(some.element[j]), alpha), some.element[j]);
		((vector<T> *)p.output)[i] = some;
	}
	for (uint64_t i = vectors * width + thread; i < p.count; i += threads)
		narrow(activate<KIND>(widen(((const T *)p.input)[i]), alpha), ((T *)p.output)[i]);
}

template <typename T> INLINE void run_kind(const activation_parameters &p)
{
	switch (p.kind) {
	case ACTIVATION_RELU:
		return run<T, ACTIVATION_RELU>(p);
	case ACTIVATION_LEAKY_RELU:
		return run<T, ACTIVATION_LEAKY_RELU>(p);
	case ACTIVATION_ELU:
		return run<T, ACTIVATION_ELU>(p);
	case ACTIVATION_GELU:
		return run<T, ACTIVATION_GELU>(p);
	case ACTIVATION_SILU:
		return run<T, ACTIVATION_SILU>(p);
	case ACTIVATION_SIGMOID:
		return run<T, ACTIVATION_SIGMOID>(p);
	case ACTIVATION_TANH:
		return run<T, ACTIVATION_TANH>(p);
	}
}

// The state of a softmax: the largest value so far, and the sum of exp(x - largest).
template <typename W> struct total {
	W largest, sum;
};

// Adds the state (`largest`, `sum`) to the state `to`. If a sum is 0, its `largest` is not valid. A NaN stays a NaN.
template <typename W> INLINE void add(total<W> &to, W largest, W sum)
{
	if (sum == 0)
		return;
	if (largest > to.largest) {
		to.sum = sum + (to.sum == 0 ? 0 : to.sum * exponential(to.largest - largest));
		to.largest = largest;
	} else {
		to.sum += sum * exponential(largest - to.largest);
	}
}

template <typename T> INLINE void softmax(const softmax_parameters &p)
{
	typedef typename wide<T>::type W;
	__shared__ W largest[ACTIVATION_THREADS], sums[ACTIVATION_THREADS];
	// Neighbouring threads must read neighbouring elements of memory. These belong to neighbouring positions of a
	// channel. If an image has only one position, they belong to neighbouring channels.
	const uint32_t position = p.area == 1 ? threadIdx.x / p.lanes : threadIdx.x % p.positions;
	const uint32_t lane = p.area == 1 ? threadIdx.x % p.lanes : threadIdx.x / p.positions;
	const uint32_t mine_at = lane * p.positions + position;
	const uint64_t places = p.images * p.area, blocks = (places + p.positions - 1) / p.positions;
	const W none = -(W)INFINITY;

	for (uint64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
		const uint64_t at = block * p.positions + position;
		const uint64_t first = at / p.area * p.channels * p.area + at % p.area;
		const T *input = (const T *)p.input + first;
		T *output = (T *)p.output + first;
		total<W> mine = {none, 0};
		if (at < places)
			for (uint64_t c = lane; c < p.channels; c += p.lanes) {
				W x = widen(input[c * p.area]);
				// The sum of exp(x - largest) for x alone: 0 for -infinity, NaN for +infinity and NaN,
				// and 1 for all other values.
				add(mine, x, x == none ? (W)0 : 1 + (x - x));
			}
		largest[mine_at] = mine.largest;
		sums[mine_at] = mine.sum;
		for (uint32_t half = p.lanes / 2; half > 0; half /= 2) {
			__syncthreads();
			if (lane < half) {
				add(mine, largest[mine_at + half * p.positions], sums[mine_at + half * p.positions]);
				largest[mine_at] = mine.largest;
				sums[mine_at] = mine.sum;
			}
		}
		__syncthreads();
		mine = {largest[position], sums[position]};
		__syncthreads();
		if (at < places)
			for (uint64_t c = lane; c < p.channels; c += p.lanes)
				narrow(exponential(widen(input[c * p.area]) - mine.largest) / mine.sum,
				       output[c * p.area]);
	}
}

#define KERNELS(T)                                                                                                     \
	extern "C" __global__ void __launch_bounds__(ACTIVATION_THREADS)                                               \
		virgate_activate_##T(const __grid_constant__ activation_parameters p)                                  \
	{                                                                                                              \
		run_kind<T>(p);                                                                                        \
	}                                                                                                              \
	extern "C" __global__ void __launch_bounds__(ACTIVATION_THREADS)                                               \
		virgate_softmax_##T(const __grid_constant__ softmax_parameters p)                                      \
	{                                                                                                              \
		softmax<T>(p);                                                                                         \
	}
typedef float f32;
typedef double f64;
KERNELS(f32)
KERNELS(f16)
KERNELS(bf16)
KERNELS(f64)
