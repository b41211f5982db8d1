// The kernels of the tests of the object model.
#include <cooperative_groups.h>

extern "C" {
__device__ int counter = 5;
__device__ int results[64];
__device__ char ballast[8 << 20];
__constant__ float table[4] = {1, 2, 3, 4};

__global__ void empty() {}

__global__ void bump(int by) { atomicAdd(&counter, by); }

__global__ void store(long long *where, char c, short s, int i, double d, char last)
{
	where[0] = c;
	where[1] = s;
	where[2] = i;
	where[3] = (long long)d;
	where[4] = last;
}

__global__ void shape(unsigned *where)
{
	if (blockIdx.x || blockIdx.y || blockIdx.z || threadIdx.x || threadIdx.y || threadIdx.z)
		return;
	where[0] = gridDim.x;
	where[1] = gridDim.y;
	where[2] = gridDim.z;
	where[3] = blockDim.x;
	where[4] = blockDim.y;
	where[5] = blockDim.z;
}

__global__ void dynamic(int *where)
{
	extern __shared__ int shared[];

	shared[threadIdx.x] = threadIdx.x;
	__syncthreads();
	if (threadIdx.x == 0)
		*where = shared[blockDim.x - 1];
}

__global__ void __launch_bounds__(64) meet(int *where)
{
	atomicAdd(where, 1);
	cooperative_groups::this_grid().sync();
	if (blockIdx.x == 0 && threadIdx.x == 0)
		where[1] = where[0];
}
}
