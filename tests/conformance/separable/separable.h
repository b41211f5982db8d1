// Declarations that the separately compiled files of the program share.
#pragma once

extern __device__ int shared_counter;
extern __constant__ int shared_constants[3];
__device__ int second_own(int x);
__device__ int through_table(int x);
__device__ int library_square(int x);
__device__ int library_calls();

// Every file that uses the template compiles a definition; the linker keeps one.
template <int factor> __device__ __noinline__ int common_function(int x)
{
	return factor * x + shared_counter;
}
