// Kernels of the corpus that compute sums: in shared memory, with shuffles, with one instruction for each warp, and in
// f32 with atomics.
#include "corpus.cuh"

KERNEL(reduce_shared)
{
	__shared__ unsigned part[256];
	unsigned sum = 0;

	for (unsigned i = THREAD; i < n; i += THREADS)
		sum += in[i];
	part[threadIdx.x] = sum;
	__syncthreads();
	for (unsigned width = blockDim.x / 2; width; width /= 2) {
		if (threadIdx.x < width)
			part[threadIdx.x] += part[threadIdx.x + width];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		out[blockIdx.x] = part[0];
}

KERNEL(reduce_shuffle)
{
	__shared__ unsigned part[32];
	unsigned largest = 0;

	for (unsigned i = THREAD; i < n; i += THREADS)
		largest = max(largest, in[i] ^ i * 2654435761u);
	for (int width = 16; width; width /= 2)
		largest = max(largest, __shfl_xor_sync(~0u, largest, width));
	if (threadIdx.x % 32 == 0)
		part[threadIdx.x / 32] = largest;
	__syncthreads();
	if (threadIdx.x < 32) {
		largest = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
		for (int width = 16; width; width /= 2)
			largest = max(largest, __shfl_down_sync(~0u, largest, width));
		if (threadIdx.x == 0)
			out[blockIdx.x] = largest;
	}
}

KERNEL(reduce_redux)
{
	unsigned x = THREAD < n ? in[THREAD] : 0;
	unsigned sum = __reduce_add_sync(~0u, x), all = __reduce_and_sync(~0u, x), any = __reduce_or_sync(~0u, x);
	int least = __reduce_min_sync(~0u, (int)x), most = __reduce_max_sync(~0u, (int)x);
	unsigned odd = __reduce_xor_sync(~0u, x);

	if (threadIdx.x % 32 == 0) {
		atomicAdd(out, sum);
		atomicAnd(out + 1, all);
		atomicOr(out + 2, any);
		atomicMin((int *)out + 3, least);
		atomicMax((int *)out + 4, most);
		atomicXor(out + 5, odd);
	}
}

// Adds with atomic operations, so the order of the additions differs from run to run.
KERNEL(reduce_float_atomic)
{
	float sum = 0;

	for (unsigned i = THREAD; i < n; i += THREADS)
		sum += ((const float *)in)[i] + 1.5f;
	atomicAdd((float *)out + (threadIdx.x & 7), sum);
	atomicAdd((double *)work, 0.25);
	atomicAdd((float *)out + 8, 1.0f);
}
