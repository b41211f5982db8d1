// What every kernel of the corpus takes: seeded input, zeroed output and scratch, a size,
// and the number of the launch. Built without contraction of products and sums, so that no
// compiler on the way to a GPU may choose other roundings: fmaf and fma are written out.
#pragma once

#define KERNEL(name)                                                                                                   \
	extern "C" __global__ void name(const unsigned *in, unsigned *out, unsigned *work, unsigned n, unsigned step)

#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS (gridDim.x * blockDim.x)

typedef unsigned char byte;
typedef unsigned long long word64;

static __device__ __forceinline__ unsigned rotate_left(unsigned x, unsigned by) { return x << by | x >> (32 - by); }
static __device__ __forceinline__ unsigned rotate_right(unsigned x, unsigned by) { return x >> by | x << (32 - by); }
