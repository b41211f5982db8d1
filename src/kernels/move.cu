// Copies a list of pieces of device memory by one launch, and compares two by two what a list names. The list may lie in
// page-locked memory of the host.
#include "move.h"

enum { VECTORS = 4 }; // that a thread has on their way at once
enum { WORDS = 3 };   // of a piece, each read by a thread of its own

#define INLINE static __device__ __forceinline__

// A thread's vectors lie MOVE_THREADS apart, so that a warp's are neighbours.
INLINE void copy(const struct move_piece *piece)
{
	const uint4 *from = (const uint4 *)piece->from;
	uint4 *to = (uint4 *)piece->to;
	const uint32_t vectors = (uint32_t)(piece->bytes / sizeof(uint4));
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

INLINE uint32_t differ(uint4 a, uint4 b)
{
	return (a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w);
}

// Nonzero where a vector of this thread is not the same at both places.
INLINE uint32_t compare(const struct move_piece *piece)
{
	const uint4 *from = (const uint4 *)piece->from, *to = (const uint4 *)piece->to;
	const uint32_t vectors = (uint32_t)(piece->bytes / sizeof(uint4));
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
			found |= differ(left[v], right[v]);
	}
	for (; at < vectors; at += MOVE_THREADS)
		found |= differ(from[at], to[at]);
	return found;
}

// The block's piece: it crosses the bus once, not once for each warp.
INLINE const struct move_piece *take_piece(const struct move_piece *pieces)
{
	__shared__ struct move_piece piece;

	if (threadIdx.x < WORDS)
		((uint64_t *)&piece)[threadIdx.x] = ((const uint64_t *)&pieces[blockIdx.x])[threadIdx.x];
	__syncthreads();
	return &piece;
}

// As many blocks as pieces, both: whichever is done makes room for the next.
extern "C" __global__ void __launch_bounds__(MOVE_THREADS) virgate_move(const struct move_piece *pieces)
{
	copy(take_piece(pieces));
}

// different[i] becomes 1 where piece number i is not the same at both places, and is not written where it is.
extern "C" __global__ void __launch_bounds__(MOVE_THREADS)
	virgate_compare(const struct move_piece *pieces, uint32_t *different)
{
	if (compare(take_piece(pieces)))
		different[blockIdx.x] = 1;
}
