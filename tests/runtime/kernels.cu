// Kernels and variables of the tests, and functions by which C code uses them. If nvcc is missing, only the host's part
// is compiled, and the device code is in kernels.ptx.
#ifdef __NVCC__
#include <cooperative_groups.h>
#define SYNCHRONIZE_GRID() cooperative_groups::this_grid().sync()
#define READ_TEXEL(texture, index) tex1Dfetch<float>(texture, index)
#else // without nvcc, the host's headers do not declare these functions, and the bodies of kernels are not used
#define SYNCHRONIZE_GRID()
#define READ_TEXEL(texture, index) 0
#endif
#include <stdio.h>

#include "kernels.h"

__device__ int counter = 7;
__device__ int numbers[4] = {1, 2, 3, 4};
__constant__ int fixed[4] = {10, 20, 30, 40};
__managed__ int shared_counter = 5;

extern "C" {

__global__ void empty()
{
}

__global__ void store(int *to, int value)
{
	*to = value;
}

__global__ void add(const float *a, const float *b, float *c, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		c[i] = a[i] + b[i];
}

__global__ void spin(long long nanoseconds)
{
	unsigned long long begin, now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
	do
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	while (now - begin < (unsigned long long)nanoseconds);
}

// Runs until the host writes to *flag.
__global__ void wait_for(volatile int *flag)
{
	while (*flag == 0)
		;
}

__global__ void wild()
{
	*(volatile int *)8 = 1;
}

__global__ void trapped()
{
	__trap();
}

__global__ void use_variables(int *to)
{
	to[0] = counter + numbers[2] + fixed[1] + shared_counter;
	shared_counter = 50;
}

__global__ void dynamic_shared(int *to)
{
	extern __shared__ int words[];

	words[threadIdx.x] = threadIdx.x;
	__syncthreads();
	to[threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
}

__global__ void static_shared(int *to)
{
	__shared__ int words[256];

	words[threadIdx.x] = threadIdx.x;
	__syncthreads();
	to[threadIdx.x] = words[blockDim.x - 1 - threadIdx.x];
}

__global__ __launch_bounds__(128) void bounded(int *to)
{
	to[threadIdx.x] = 1;
}

__global__ void sum_of_grid(int *to)
{
	atomicAdd(to, 1);
	SYNCHRONIZE_GRID();
	if (blockIdx.x == 0 && threadIdx.x == 0)
		to[1] = to[0];
}

__global__ void by_value(struct pair p, char c, int *to)
{
	to[0] = p.a;
	to[1] = (int)p.b;
	to[2] = c;
}

__global__ void read_texel(cudaTextureObject_t texture, int index, float *to)
{
	*to = READ_TEXEL(texture, index);
}

__global__ void say(int value)
{
	printf("the kernel says %d\n", value);
}

__global__ void count_up(cudaGraphConditionalHandle handle, int *to, int last)
{
	if (++*to >= last)
		cudaGraphSetConditional(handle, 0);
}

const void *symbol_counter(void)
{
	return &counter;
}

const void *symbol_numbers(void)
{
	return numbers;
}

const void *symbol_fixed(void)
{
	return fixed;
}

int *address_of_shared_counter(void)
{
	return &shared_counter;
}

int read_shared_counter(void)
{
	return shared_counter;
}

void launch_store(int *to, int value, cudaStream_t stream)
{
	store<<<1, 1, 0, stream>>>(to, value);
}

void launch_add(const float *a, const float *b, float *c, int count)
{
	add<<<(count + 255) / 256, 256>>>(a, b, c, count);
}

void launch_shape(unsigned blocks, unsigned threads, size_t shared)
{
	empty<<<blocks, threads, shared>>>();
}

} // extern "C"
