// Uses functions and variables of the other files.
#include "separable.h"

static __device__ int hidden = 1; // each file has its own variable of this name

static __device__ int own(int x)
{
	return x + hidden;
}

extern "C" __global__ void first(int *out)
{
	out[0] = own(10);
	out[1] = second_own(10);
	out[2] = through_table(7);
	out[3] = shared_counter + shared_constants[2];
	out[4] = library_square(9);
	out[5] = common_function<3>(5);
	shared_counter = 77;
}
