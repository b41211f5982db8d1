// What the kernels of activation.cu and their caller agree on. C and CUDA.
#pragma once
#include <stdint.h>

#define ACTIVATION_THREADS 256
// A thread of the element-wise kernels handles this many bytes at a time where addresses are aligned to them.
#define ACTIVATION_BYTES 16

// As VG_ACTIVATION_LIST has them.
enum activation_kind {
	ACTIVATION_RELU,
	ACTIVATION_LEAKY_RELU,
	ACTIVATION_ELU,
	ACTIVATION_GELU,
	ACTIVATION_SILU,
	ACTIVATION_SIGMOID,
	ACTIVATION_TANH
};

struct activation_parameters {
	uint64_t input, output; // addresses
	uint64_t count;		// of elements
	double alpha;
	uint32_t kind;
};

// Softmax: a block takes that many positions, of one image or several, and has that many threads, lanes, for the
// channels of each: powers of two, whose product is ACTIVATION_THREADS.
struct softmax_parameters {
	uint64_t input, output;
	uint64_t images, channels, area; // height * width
	uint32_t positions, lanes;
};
