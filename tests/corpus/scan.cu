// Kernels of the corpus that compute inclusive prefix sums: of a block, and of a grid by decoupled look-back.
#include "corpus.cuh"

static __device__ unsigned scan_warp(unsigned x)
{
	for (unsigned by = 1; by < 32; by *= 2) {
		unsigned below = __shfl_up_sync(~0u, x, by);
		if (threadIdx.x % 32 >= by)
			x += below;
	}
	return x;
}

static __device__ unsigned scan_block(unsigned x, unsigned *ends)
{
	x = scan_warp(x);
	if (threadIdx.x % 32 == 31)
		ends[threadIdx.x / 32] = x;
	__syncthreads();
	if (threadIdx.x < 32) {
		unsigned end = threadIdx.x < blockDim.x / 32 ? ends[threadIdx.x] : 0;
		ends[threadIdx.x] = scan_warp(end);
	}
	__syncthreads();
	if (threadIdx.x >= 32)
		x += ends[threadIdx.x / 32 - 1];
	return x;
}

KERNEL(scan_inclusive)
{
	__shared__ unsigned ends[32];
	unsigned i = THREAD;
	unsigned x = scan_block(i < n ? in[i] : 0, ends);

	if (i < n)
		out[i] = x;
}

// work[0] is the number of the next tile. A 64-bit word for each tile follows. Its upper two bits are a flag, and the
// others a sum.
#define PARTIAL (1ull << 62)
#define COMPLETE (2ull << 62)
#define FLAGS (3ull << 62)

KERNEL(scan_lookback)
{
	__shared__ unsigned ends[32], tile_shared;
	__shared__ word64 before_shared;
	volatile word64 *state = (volatile word64 *)work + 1;

	if (threadIdx.x == 0)
		tile_shared = atomicAdd(work, 1);
	__syncthreads();
	unsigned tile = tile_shared, i = tile * blockDim.x + threadIdx.x;
	unsigned x = scan_block(i < n ? in[i] & 0xffff : 0, ends);
	if (threadIdx.x == blockDim.x - 1) {
		word64 before = 0;
		if (tile == 0) {
			state[0] = COMPLETE | x;
		} else {
			state[tile] = PARTIAL | x;
			__threadfence();
			for (unsigned at = tile - 1;; at--) {
				word64 seen;
				while (((seen = state[at]) & FLAGS) == 0)
					;
				before += seen & ~FLAGS;
				if ((seen & FLAGS) == COMPLETE)
					break;
			}
			state[tile] = COMPLETE | (before + x);
		}
		before_shared = before;
	}
	__syncthreads();
	if (i < n)
		((word64 *)out)[i] = before_shared + x;
}
