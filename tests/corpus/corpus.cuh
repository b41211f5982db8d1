// Declares the parameters of every kernel of the corpus: seeded input, zeroed output and scratch memory, a size, and
// the number of the launch. Kernels are compiled without contraction of products and sums, so that a compiler does not
// choose other roundings: they call fmaf and fma explicitly.
#pragma once

#define KERNEL(name)                                                                                                   \
	extern "C" __global__ void name(const unsigned *in, unsigned *out, unsigned *work, unsigned n, unsigned step)

#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS (gridDim.x * blockDim.x)

typedef unsigned char byte;
typedef unsigned long long word64;

static __device__ __forceinline__ unsigned rotate_left(unsigned x, unsigned by) { return x << by | x >> (32 - by); }
static __device__ __forceinline__ unsigned rotate_right(unsigned x, unsigned by) { return x >> by | x << (32 - by); }
