// Parameters of the kernels of activation.cu. C and CUDA.
#pragma once
#include <stdint.h>

#define ACTIVATION_THREADS 256
// Bytes that a thread of the element-wise kernels handles at once, if the addresses are aligned to them.
#define ACTIVATION_BYTES 16

// In the order of VG_ACTIVATION_LIST.
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

// Softmax: a block handles `positions` positions, of one or several images, with `lanes` threads for the channels of
// each. Both are powers of two, and their product is ACTIVATION_THREADS.
struct softmax_parameters {
	uint64_t input, output;
	uint64_t images, channels, area; // height * width
	uint32_t positions, lanes;
};
