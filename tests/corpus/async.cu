// Kernels of the corpus that copy to shared memory asynchronously: a pipeline of copies, and copies that signal an
// mbarrier.
#include "corpus.cuh"

static __device__ unsigned shared_address(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }

// Keeps up to four tiles of asynchronous copies in progress. Each thread copies sixteen bytes of a tile.
KERNEL(copy_pipeline)
{
	__shared__ __align__(16) uint4 stage[4][64];
	const uint4 *from = (const uint4 *)in;
	unsigned tiles = n / 256, sum = 0;

	for (unsigned tile = 0; tile < tiles + 3; tile++) {
		if (tile < tiles)
			asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
				     :
				     : "r"(shared_address(&stage[tile % 4][threadIdx.x])),
				       "l"(from + 64 * tile + threadIdx.x));
		asm volatile("cp.async.commit_group;");
		if (tile >= 3) {
			asm volatile("cp.async.wait_group 3;" ::: "memory");
			__syncthreads();
			uint4 x = stage[(tile - 3) % 4][63 - threadIdx.x];
			sum = sum * 7 + (x.x ^ x.y) + (x.z ^ x.w);
			__syncthreads();
		}
	}
	out[THREAD] = sum;
}

KERNEL(copy_barrier)
{
	__shared__ word64 barrier;
	__shared__ unsigned tile[128];
	unsigned address = shared_address(&barrier);
	unsigned sum = 0;

	if (threadIdx.x == 0)
		asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address), "r"(blockDim.x));
	__syncthreads();
	for (unsigned round = 0; round < n; round++) {
		word64 state;
		unsigned done = 0;
		asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(tile + threadIdx.x)),
			     "l"(in + 128 * round + threadIdx.x));
		asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(address));
		(void)state;
		while (!done)
			asm volatile("{.reg .pred p;\n\tmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n\t"
				     "selp.u32 %0, 1, 0, p;}"
				     : "=r"(done)
				     : "r"(address), "r"(round & 1)
				     : "memory");
		sum += tile[threadIdx.x ^ 37] * (round + 1);
		__syncthreads();
	}
	out[THREAD] = sum;
}

// Uses barrier arrivals that return tokens, and polls the barrier with test_wait instead of blocking.
KERNEL(barrier_token)
{
	__shared__ word64 barrier;
	__shared__ unsigned slot[128];
	unsigned address = shared_address(&barrier), sum = 0;

	if (threadIdx.x == 0)
		asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(blockDim.x));
	__syncthreads();
	for (unsigned round = 0; round < n; round++) {
		word64 state;
		unsigned done = 0;
		slot[threadIdx.x] = in[THREAD] + round;
		asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(address) : "memory");
		while (!done)
			asm volatile("{.reg .pred p;\n\tmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n\t"
				     "selp.u32 %0, 1, 0, p;}"
				     : "=r"(done)
				     : "r"(address), "l"(state)
				     : "memory");
		sum = sum * 3 + slot[(threadIdx.x + 41) % 128];
		__syncthreads();
	}
	out[THREAD] = sum;
}
