// Convolution forward by cuDNN. This room only; any thread.
#pragma once
#include "operation/operation.h"

#include <stddef.h>

struct checked_convolution;
struct cudnn;

// What a plan of cuDNN runs; NULL: not made.
struct cudnn_convolution {
	void *input, *filter, *convolution, *output, *bias; // descriptors
	int algorithm;
	const void *address_input, *address_filter, *address_bias;
	void *address_output;
	int wide; // f64
};

// 0, or 1 with a sentence.
int cudnn_create(struct cudnn **ret_cudnn, char *problem, size_t capacity);
void cudnn_destroy(struct cudnn *cudnn);
// Fills in how the plan runs: 0. 1: it has nothing for this within the rules. In the set's context.
int cudnn_plan(struct cudnn *cudnn, struct operation_plan *plan, const struct checked_convolution *checked,
	       struct operation_rules rules);
