// Kernels of the corpus that sort: bitonic in shared memory, radix sort with ballots, and merge sort by steps in global
// memory.
#include "corpus.cuh"

KERNEL(sort_bitonic)
{
	__shared__ unsigned key[512];

	for (unsigned i = threadIdx.x; i < 512; i += blockDim.x)
		key[i] = in[blockIdx.x * 512 + i];
	for (unsigned size = 2; size <= 512; size *= 2)
		for (unsigned stride = size / 2; stride; stride /= 2) {
			__syncthreads();
			for (unsigned pair = threadIdx.x; pair < 256; pair += blockDim.x) {
				unsigned low = 2 * stride * (pair / stride) + pair % stride;
				unsigned x = key[low], y = key[low + stride];
				if ((x > y) == ((low & size) == 0)) {
					key[low] = y;
					key[low + stride] = x;
				}
			}
		}
	__syncthreads();
	for (unsigned i = threadIdx.x; i < 512; i += blockDim.x)
		out[blockIdx.x * 512 + i] = key[i];
}

// Sorts 256 keys in one block: for each bit of the keys, splits them into two groups, in which their order stays the
// same.
KERNEL(sort_radix)
{
	__shared__ unsigned key[2][256], zeros[8];
	unsigned at = threadIdx.x, lane = at % 32, warp = at / 32, side = 0;

	key[0][at] = in[blockIdx.x * 256 + at];
	for (unsigned bit = 0; bit < 32; bit++, side ^= 1) {
		__syncthreads();
		unsigned mine = key[side][at], is_zero = !(mine >> bit & 1);
		unsigned votes = __ballot_sync(~0u, is_zero);
		if (lane == 0)
			zeros[warp] = __popc(votes);
		__syncthreads();
		unsigned below = 0, total = 0;
		for (unsigned w = 0; w < 8; w++) {
			if (w < warp)
				below += zeros[w];
			total += zeros[w];
		}
		below += __popc(votes & ((1u << lane) - 1));
		key[side ^ 1][is_zero ? below : total + at - below] = mine;
	}
	__syncthreads();
	out[blockIdx.x * 256 + at] = key[side][at];
}

// Merges runs of 2^step elements. The steps write alternately to `out` and to `work`.
KERNEL(sort_merge)
{
	unsigned run = 1u << step, first = THREAD * 2 * run;
	const unsigned *from = step == 0 ? in : step & 1 ? out : work;
	unsigned *to = step & 1 ? work : out;

	if (first >= n)
		return;
	unsigned left = first, left_end = min(first + run, n), right = left_end, right_end = min(first + 2 * run, n);
	for (unsigned at = first; at < right_end; at++) {
		bool take_left = left < left_end && (right >= right_end || (int)from[left] <= (int)from[right]);
		to[at] = take_left ? from[left++] : from[right++];
	}
}
