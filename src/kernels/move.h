// What the kernels of move.cu and their caller agree on. C and CUDA.
#pragma once
#include <stdint.h>

// A piece is the work of one block of threads: large blocks of memory are many pieces.
#define MOVE_PIECE_BYTES 65536
#define MOVE_THREADS 256

// Multiples of 16, all three. Read across the bus, so it does not straddle what that carries at once.
struct move_piece {
	uint64_t to, from, bytes;
} __attribute__((aligned(32)));
