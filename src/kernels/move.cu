// Copies a list of pieces of device memory by one launch, and compares two by two what a list names. The list may lie
// in page-locked memory of the host: a block reads 24 bytes of it for each 64 KiB that it copies.
#include "move.h"

enum { VECTORS = 4 }; // that a thread has on their way at once

// Blocks take pieces in turn; a thread's vectors lie MOVE_THREADS apart, so that a warp's are neighbours.
extern "C" __global__ void __launch_bounds__(MOVE_THREADS) virgate_move(const struct move_piece *pieces, uint32_t count)
{
	for (uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
		const uint4 *from = (const uint4 *)pieces[i].from;
		uint4 *to = (uint4 *)pieces[i].to;
		const uint32_t vectors = (uint32_t)(pieces[i].bytes / sizeof(uint4));
		uint32_t at = threadIdx.x;
		for (; at + (VECTORS - 1) * MOVE_THREADS < vectors; at += VECTORS * MOVE_THREADS) {
			uint4 data[VECTORS];
#pragma unroll
			for (int v = 0; v < VECTORS; v++)
				data[v] = from[at + v * MOVE_THREADS];
#pragma unroll
			for (int v = 0; v < VECTORS; v++)
				to[at + v * MOVE_THREADS] = data[v];
		}
		for (; at < vectors; at += MOVE_THREADS)
			to[at] = from[at];
	}
}

static __device__ __forceinline__ uint32_t differs(uint4 a, uint4 b)
{
	return (a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w);
}

// different[i] becomes 1 where piece number i is not the same at both places; it is not written where it is.
extern "C" __global__ void __launch_bounds__(MOVE_THREADS)
	virgate_compare(const struct move_piece *pieces, uint32_t count, uint32_t *different)
{
	for (uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
		const uint4 *from = (const uint4 *)pieces[i].from, *to = (const uint4 *)pieces[i].to;
		const uint32_t vectors = (uint32_t)(pieces[i].bytes / sizeof(uint4));
		uint32_t at = threadIdx.x, found = 0;
		for (; at + (VECTORS - 1) * MOVE_THREADS < vectors; at += VECTORS * MOVE_THREADS) {
			uint4 left[VECTORS], right[VECTORS];
#pragma unroll
			for (int v = 0; v < VECTORS; v++) {
				left[v] = from[at + v * MOVE_THREADS];
				right[v] = to[at + v * MOVE_THREADS];
			}
#pragma unroll
			for (int v = 0; v < VECTORS; v++)
				found |= differs(left[v], right[v]);
		}
		for (; at < vectors; at += MOVE_THREADS)
			found |= differs(from[at], to[at]);
		if (found)
			different[i] = 1;
	}
}
