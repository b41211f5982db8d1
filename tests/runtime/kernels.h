// Declares the kernels and variables of kernels.cu. C code passes the address of a kernel to cudaLaunchKernel(). Any
// thread may use this header.
#pragma once

#include <cuda_runtime_api.h>

struct pair {
	int a;
	double b;
};

#ifdef __cplusplus
extern "C" {
#else
void empty(void);
void store(int *to, int value);
void add(const float *a, const float *b, float *c, int count);
void spin(long long nanoseconds);
void wait_for(volatile int *flag);
void wild(void);
void trapped(void);
void use_variables(int *to);
void dynamic_shared(int *to);
void static_shared(int *to);
void bounded(int *to);
void sum_of_grid(int *to);
void by_value(struct pair p, char c, int *to);
void read_texel(cudaTextureObject_t texture, int index, float *to);
void say(int value);
void count_up(cudaGraphConditionalHandle handle, int *to, int last);
#endif

const void *symbol_counter(void); // int, 7
const void *symbol_numbers(void); // int[4]: 1, 2, 3, 4
const void *symbol_fixed(void);	  // constant int[4]: 10, 20, 30, 40
int *address_of_shared_counter(void);
int read_shared_counter(void); // the managed int has the value 5 at first, and 50 after use_variables()
void launch_store(int *to, int value, cudaStream_t stream);
void launch_add(const float *a, const float *b, float *c, int count);
void launch_shape(unsigned blocks, unsigned threads, size_t shared);

#ifdef __cplusplus
}
#endif
