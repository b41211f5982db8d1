// This file is compiled into a static library, so that device code is linked from an archive.
#include "separable.h"

static __device__ int calls;

__device__ int library_square(int x)
{
	calls++;
	return x * x;
}

__device__ int library_calls()
{
	return calls;
}
