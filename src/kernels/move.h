// What the kernels of move.cu and their caller agree on. C and CUDA.
#pragma once
#include <stdint.h>

// A piece is one block's work at a time: large blocks of memory are many pieces.
#define MOVE_PIECE_BYTES 65536
#define MOVE_THREADS 256
#define MOVE_BLOCKS_PER_SM 8

// Multiples of 16, all three.
struct move_piece {
	uint64_t to, from, bytes;
};
