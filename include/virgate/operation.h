/* Operations of neural networks on device memory: matrix multiplication, convolution, activation. This header has their
 * parameters; a program runs them through a virtual GPU.
 *
 * Matrices are row-major. Images are NCHW: batch, channel, row, column, with the last dimension dense. Sums of products
 * are computed in f32 for f32, tf32, f16 and bf16, and in f64 for f64. They are rounded once to the type in memory, to
 * nearest, ties to even.
 *
 * NVIDIA's cuBLASLt and cuDNN run an operation if they are installed and support its shape. Otherwise this library's
 * own kernels run it, as they always do on the simulated GPU. A sum of t terms, whose absolute values add up to S, has
 * an error of at most (t + 8) * 2^-23 * S (f64: 2^-52), for tf32 2^-9 * S more, plus the rounding of the stored value.
 * GELU adds 2^-12 of its argument. cuDNN adds the bias of a convolution after it has rounded the sum. cuBLASLt may
 * round a sum to the type before it adds C or the bias, and before RELU or GELU; this library's kernels never do.
 * Device memory that these libraries use for themselves, mostly for code, is charged to no virtual GPU.
 *
 * If tensor cores are off, no kernel uses them: this library's kernels then multiply f16 and bf16, and tf32, which only
 * tensor cores have, is refused. If mixed precision is off, multiplications and convolutions of f16, bf16 and tf32 are
 * refused, since their sums are wider than their factors. Activations have no sums of products, and are still
 * allowed. */
#ifndef VIRGATE_OPERATION_H
#define VIRGATE_OPERATION_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/cuda_handles.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum vg_element_type {
	VG_F32,
	VG_TF32, /* f32 in memory; factors may be rounded to 10 bits of mantissa before they are multiplied */
	VG_F16,	 /* IEEE binary16 */
	VG_BF16, /* the upper half of an f32 */
	VG_F64,
};

/* The function that is applied to a sum before it is stored. RELU turns a NaN into a NaN or 0. GELU is the
 * approximation with tanh: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))). */
enum vg_epilogue {
	VG_EPILOGUE_NONE,
	VG_EPILOGUE_BIAS, /* + bias[column] */
	VG_EPILOGUE_RELU,
	VG_EPILOGUE_RELU_BIAS, /* adds the bias first, then applies RELU */
	VG_EPILOGUE_GELU,
	VG_EPILOGUE_GELU_BIAS,
};

/* C = epilogue(alpha * A * B + beta * C), where A is m x k, B is k x n and C is m x n, each without gaps between its
 * rows. If beta is 0, the old C is not read. If alpha is 0, neither A nor B is read. */
struct vg_matrix_multiply {
	size_t size;		   /* sizeof(struct vg_matrix_multiply) */
	enum vg_element_type type; /* type of the elements of A, B, C and the bias */
	uint64_t m, n, k;	   /* from 1 */
	vg_address a, b, c;	   /* multiples of the type's bytes; C overlaps neither A nor B nor the bias */
	uint64_t batch;		   /* number of such products; 0: 1 */
	/* Distance in elements from the matrix of one product to that of the next; 0: the size of the matrix. The
	 * stride of C is at least that size. Matrices of A may overlap each other, and so may those of B. For a
	 * matrix that all products share, see `shared_a` and `shared_b`. */
	int64_t stride_a, stride_b, stride_c;
	int shared_a, shared_b; /* nonzero: all products use the same A (B), whose stride must be 0 */
	double alpha, beta;	/* both 0: alpha is 1 */
	enum vg_epilogue epilogue;
	vg_address bias; /* address of n elements, which all rows and products use; 0: no bias */
};

/* output[b][o] = bias[o] + sum over channels c of o's group, rows r, columns s of
 * filter[o][c][r][s] * input[b][c][row * stride - padding + r * dilation][…], zeros around the image (what cuDNN calls
 * a cross-correlation). The output has (height + 2 * padding - dilation * (kernel_height - 1) - 1) / stride + 1 rows,
 * rounded down, and columns likewise. */
struct vg_convolution {
	size_t size; /* sizeof(struct vg_convolution) */
	enum vg_element_type type;
	vg_address input;  /* batch x in_channels x height x width */
	vg_address filter; /* out_channels x in_channels / groups x kernel_height x kernel_width */
	vg_address output; /* batch x out_channels x output rows x output columns; overlaps none of the others */
	vg_address bias;   /* out_channels; 0: none */
	uint64_t batch, in_channels, out_channels, height, width, kernel_height, kernel_width; /* from 1 */
	unsigned stride[2], padding[2], dilation[2]; /* for rows, and for columns; stride and dilation 0: 1 */
	unsigned groups;			     /* divides both numbers of channels; 0: 1 */
};
/* Computes how many rows and columns the output of a convolution has. INVALID if the shape is invalid for a
 * convolution; addresses are not checked. Any thread. */
VG_PUBLIC enum vg_status vg_convolution_output(const struct vg_convolution *convolution, uint64_t *ret_height,
					       uint64_t *ret_width);

/* X(NAME, text, formula). A NaN stays a NaN. If the function tends to zero for -infinity, its value there is zero. */
#define VG_ACTIVATION_LIST(X)                                                \
	X(RELU, "relu", "max(x, 0)")                                         \
	X(LEAKY_RELU, "leaky_relu", "x > 0 ? x : alpha * x; alpha 0: 0.01")  \
	X(ELU, "elu", "x > 0 ? x : alpha * (exp(x) - 1); alpha 0: 1")        \
	X(GELU, "gelu", "x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))") \
	X(SILU, "silu", "x / (1 + exp(-x))")                                 \
	X(SIGMOID, "sigmoid", "1 / (1 + exp(-x))")                           \
	X(TANH, "tanh", "tanh(x)")                                           \
	X(SOFTMAX, "softmax", "exp(x) / sum of exp over the channels, at each position of each image by itself")
enum vg_activation_kind {
#define X(name, text, formula) VG_ACTIVATION_##name,
	VG_ACTIVATION_LIST(X)
#undef X
};
/* Finds a function by its text in the list, such as "relu". Hyphens count as underscores, and capital letters as
 * small ones. INVALID, NOT_FOUND (lists the names). Any thread. */
VG_PUBLIC enum vg_status vg_activation_by_name(const char *name, enum vg_activation_kind *ret_kind);
/* Returns the text in the list; NULL for a value outside the list. Any thread. */
VG_PUBLIC const char *vg_activation_name(enum vg_activation_kind kind);

/* output = activation(input), both batch x channels x height x width. They may be the same memory, and may not overlap
 * otherwise. */
struct vg_activation {
	size_t size; /* sizeof(struct vg_activation) */
	enum vg_element_type type;
	enum vg_activation_kind kind;
	vg_address input, output;
	uint64_t batch, channels, height, width; /* from 1 */
	/* Parameter of leaky_relu and elu; 0: the default. Other functions have none. */
	double alpha;
};

#ifdef __cplusplus
}
#endif
#endif
