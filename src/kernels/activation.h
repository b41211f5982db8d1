// Parameters of the kernels of activation.cu. C and CUDA.
#pragma once
#include <stdint.h>

#define ACTIVATION_THREADS 256
// Number of bytes that a thread of an element-wise kernel handles at once, if the addresses are aligned to that number.
#define ACTIVATION_BYTES 16

// The functions, in the order of VG_ACTIVATION_LIST.
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
	uint64_t count;		// number of elements
	double alpha;
	uint32_t kind;
};

// The parameters of a softmax over the channels of each position of an image. A thread block handles `positions`
// positions, of one or several images. `lanes` threads share the channels of each position. Both numbers are powers of
// two, and their product is ACTIVATION_THREADS.
struct softmax_parameters {
	uint64_t input, output;
	uint64_t images, channels, area; // `area`: height * width
	uint32_t positions, lanes;
};
