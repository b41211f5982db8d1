// Kernels for test_device.c, which call the functions of src/abi/toolkit/device.
#define KERNEL extern "C" __global__ void

#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)

#define MATHEMATICAL(name)                                                                                             \
	KERNEL name##_f64(const double *x, double *y)                                                                  \
	{                                                                                                              \
		y[THREAD] = name(x[THREAD]);                                                                           \
	}                                                                                                              \
	KERNEL name##_f32(const float *x, float *y)                                                                    \
	{                                                                                                              \
		y[THREAD] = name##f(x[THREAD]);                                                                        \
	}
MATHEMATICAL(exp)
MATHEMATICAL(expm1)
MATHEMATICAL(tanh)
MATHEMATICAL(erf)

// Runs as one warp. Stores the result of each tested function in a word of its own.
KERNEL warp(unsigned *out)
{
	const unsigned lane = threadIdx.x, odd = lane & 1;
	unsigned *mine = out + 12 * lane;

	mine[0] = __all_sync(~0u, lane < 32) + 2 * __any_sync(~0u, lane == 40) + 4 * __any_sync(~0u, lane == 4);
	mine[1] = __ballot_sync(~0u, odd);
	mine[2] = odd ? __activemask() : 0;
	__syncwarp();
	mine[3] = __shfl_sync(~0u, lane, 5);
	mine[4] = __shfl_up_sync(~0u, lane, 3);
	mine[5] = __shfl_down_sync(~0u, lane, 3, 8);
	mine[6] = (unsigned)(__shfl_xor_sync(~0u, (unsigned long long)lane << 40, 1) >> 40);
	mine[7] = (unsigned)__shfl_xor_sync(~0u, (double)lane, 2);
	mine[8] = __reduce_add_sync(~0u, lane);
	mine[9] = __clz(lane) + 100 * __ffs(lane) + 10000 * __popc(lane);
	mine[10] = __brev(lane) >> 24;
	mine[11] = min(lane, 7u) + max(3, (int)lane);
}

// Runs with 32 threads, which all change the same words. Each function has a word of its own.
KERNEL atomics(unsigned *words, float *f, double *d, unsigned long long *wide)
{
	const unsigned lane = threadIdx.x;

	atomicAdd(words, lane);
	atomicSub(words + 1, lane);
	atomicMin(words + 2, lane + 5);
	atomicMax((int *)words + 3, -(int)lane);
	atomicAnd(words + 4, ~(1u << lane));
	atomicOr(words + 5, 1u << lane);
	atomicXor(words + 6, lane);
	if (atomicExch(words + 7, lane + 1) == 0)
		atomicAdd(words + 8, 1);
	if (atomicCAS(words + 9, 0, lane + 1) == 0)
		atomicAdd(words + 10, 1);
	atomicInc(words + 11, 9);
	atomicDec(words + 12, 9);
	atomicAdd(f, 0.5f);
	atomicAdd(d, 0.25);
	atomicAdd(wide, 1ull << 32);
}

// After the barrier, each thread reads what another thread wrote before it.
KERNEL barrier(unsigned *out)
{
	__shared__ unsigned word;

	if (threadIdx.x == 0)
		word = 7;
	__syncthreads();
	out[threadIdx.x] = word;
}
