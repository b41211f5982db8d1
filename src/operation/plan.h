// Declares plans and sets. For this directory only.
#pragma once
#include "core/context.h"
#include "core/error.h"
#include "core/kernel.h"
#include "core/stream.h"
#include "kernels/activation.h"
#include "kernels/multiply.h"
#include "operation/cublaslt.h"
#include "operation/cudnn.h"
#include "operation/operation.h"

// Properties of an element type.
struct operation_type {
	const char *name;
	unsigned bytes, kernels; // bytes of an element; `kernels`: index of the type's kernels
	// `tensor_only`: only tensor cores compute with this type; `mixed`: sums are wider than the factors.
	bool tensor_only, mixed;
};
enum { OPERATION_KERNEL_TYPES = 4 };
// Returns NULL for an invalid type.
const struct operation_type *operation_type_of(enum vg_element_type type);

// The parameters for launching a kernel of this library.
struct operation_launch {
	struct vg_kernel *kernel; // the kernel to launch, which the set owns
	unsigned blocks, threads;
	union { // the argument of the kernel; each kind of operation uses one member
		struct multiply_parameters multiply;
		struct convolve_parameters convolve;
		struct activation_parameters activation;
		struct softmax_parameters softmax;
	} parameters;
};

struct operation_plan {
	struct operation_set *set;
	enum operation_provider provider;
	struct operation_ranges ranges;
	size_t workspace;
	char says[96];
	// Runs the plan. Call with the set's context current. Fails with DRIVER.
	enum vg_status (*run)(struct operation_plan *plan, CUstream stream, vg_address workspace);
	void (*finish)(struct operation_plan *plan); // frees the parts that the provider added; may be NULL
	union {					     // parameters for the provider
		struct operation_launch launch;
		struct cublaslt_multiply multiply;
		struct cudnn_convolution convolution;
	};
};

enum operation_kernel {
	KERNEL_MULTIPLY_SMALL,
	KERNEL_MULTIPLY_LARGE,
	KERNEL_CONVOLVE_SMALL,
	KERNEL_CONVOLVE_LARGE,
	KERNEL_ACTIVATE,
	KERNEL_SOFTMAX,
	KERNEL_COUNT
};

struct operation_set {
	struct vg_context *context; // owns a reference
	unsigned processors;	    // number of multiprocessors of the device
	struct vg_object_code *multiply, *activation;
	struct vg_kernel *kernels[KERNEL_COUNT][OPERATION_KERNEL_TYPES]; // NULL: no such kernel for the type
	// NVIDIA's libraries. Each is loaded once, under the lock, and does not change after that.
	struct vg_mutex lock;
	bool tried[OPERATION_PORTABLE];
	char lacks[OPERATION_PORTABLE][1000]; // why the provider is not available; "": it is available
	struct cublaslt *cublaslt;
	struct cudnn *cudnn;
};

// Validated descriptions with defaults filled in, and values computed from them.
struct checked_multiply {
	struct vg_matrix_multiply d;
	const struct operation_type *type;
	struct operation_ranges ranges;
};
struct checked_convolution {
	struct vg_convolution d;
	const struct operation_type *type;
	uint64_t output_height, output_width;
	struct operation_ranges ranges;
};
struct checked_activation {
	struct vg_activation d;
	const struct operation_type *type;
	struct operation_ranges ranges;
};
enum vg_status operation_check_multiply(const struct vg_matrix_multiply *description,
					struct checked_multiply *ret_checked);
enum vg_status operation_check_convolution(const struct vg_convolution *description,
					   struct checked_convolution *ret_checked);
enum vg_status operation_check_activation(const struct vg_activation *description,
					  struct checked_activation *ret_checked);

// Make a plan with this library's kernels. Cannot fail.
void portable_multiply(struct operation_plan *plan, const struct checked_multiply *checked);
void portable_convolution(struct operation_plan *plan, const struct checked_convolution *checked);
void portable_activation(struct operation_plan *plan, const struct checked_activation *checked);
