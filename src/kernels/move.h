// Parameters of the kernels of move.cu. C and CUDA.
#pragma once
#include <stdint.h>

// A piece is the work of one thread block: large blocks of memory are divided into pieces.
#define MOVE_PIECE_BYTES 65536
#define MOVE_THREADS 256

// All three members must be multiples of 16. The structure is aligned, so that one transfer over the bus reads it.
struct move_piece {
	uint64_t to, from, bytes;
} __attribute__((aligned(32)));
