// Declares the parameters that every kernel of the corpus has: input from a seed, zeroed output and scratch memory, a
// size, and the number of the launch.
// Kernels are compiled without the contraction of products and sums to fused operations, since compilers would choose
// different roundings. Where a kernel needs a fused operation, it calls fmaf or fma.
#pragma once

#define KERNEL(name)                                                                                                   \
	extern "C" __global__ void name(const unsigned *in, unsigned *out, unsigned *work, unsigned n, unsigned step)

#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS (gridDim.x * blockDim.x)

typedef unsigned char byte;
typedef unsigned long long word64;

static __device__ __forceinline__ unsigned rotate_left(unsigned x, unsigned by) { return x << by | x >> (32 - by); }
static __device__ __forceinline__ unsigned rotate_right(unsigned x, unsigned by) { return x >> by | x << (32 - by); }
