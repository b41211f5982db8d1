// Parameters of the kernels of multiply.cu. C and CUDA.
#pragma once
#include <stdint.h>

#define MULTIPLY_THREADS 256
// Rows and columns of a thread block's tile, in the kernels named _small and _large.
#define MULTIPLY_SMALL 64
#define MULTIPLY_LARGE 128

enum multiply_epilogue { MULTIPLY_PLAIN, MULTIPLY_RELU, MULTIPLY_GELU };

// How to store the sums. Strides are in elements.
struct multiply_result {
	// Addresses. A convolution has a bias for each row, and a matrix product for each column. `bias` 0: none.
	uint64_t c, bias;
	uint64_t stride; // distance from one product's C to the next one's
	double alpha, beta;
	uint32_t epilogue; // enum multiply_epilogue
};

struct multiply_parameters {
	uint64_t m, n, k, batch;
	uint64_t a, b; // addresses
	uint64_t stride_a, stride_b;
	struct multiply_result result;
};

// A convolution is one product for each image and group: m output channels of the group, n positions of the output, k
// weights of a filter. A contains the filters. B is read from the image as it is needed.
struct convolve_parameters {
	uint64_t m, n, k, batch;   // `batch`: images * groups
	uint64_t filter, input;	   // addresses
	uint32_t groups, channels; // `channels`: number of channels of a group
	uint32_t height, width, kernel_height, kernel_width, output_width;
	uint32_t stride[2], padding[2], dilation[2];
	struct multiply_result result;
};
