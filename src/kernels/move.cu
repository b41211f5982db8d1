// Copies or compares a list of pieces of device memory in one launch. The list may be in page-locked host memory.
#include "move.h"

enum { VECTORS = 4 }; // number of vectors that a thread loads at once
enum { WORDS = 3 };   // number of words of a struct move_piece, each read by another thread

#define INLINE static __device__ __forceinline__

// Copies the piece. The vectors of one thread are MOVE_THREADS apart, so that the threads of a warp access neighbouring
// vectors.
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

// Compares the piece. Returns nonzero if a vector of this thread differs.
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

// Loads the description of the block's piece into shared memory, so that it crosses the bus once, not once for each
// warp.
INLINE const struct move_piece *load_piece(const struct move_piece *pieces)
{
	__shared__ struct move_piece piece;

	if (threadIdx.x < WORDS)
		((uint64_t *)&piece)[threadIdx.x] = ((const uint64_t *)&pieces[blockIdx.x])[threadIdx.x];
	__syncthreads();
	return &piece;
}

// Launch both kernels with one thread block for each piece.
extern "C" __global__ void __launch_bounds__(MOVE_THREADS) virgate_move(const struct move_piece *pieces)
{
	copy(load_piece(pieces));
}

// Sets different[i] to 1 if piece i differs, and leaves it unchanged otherwise.
extern "C" __global__ void __launch_bounds__(MOVE_THREADS)
	virgate_compare(const struct move_piece *pieces, uint32_t *different)
{
	if (compare(load_piece(pieces)))
		different[blockIdx.x] = 1;
}
