// Computes forward convolutions with cuDNN. For this directory only; any thread.
#pragma once
#include "operation/operation.h"

#include <stddef.h>

struct checked_convolution;
struct cudnn;

// The parameters of a plan for cuDNN. A pointer is NULL if its object was not created.
struct cudnn_convolution {
	void *input, *filter, *convolution, *output, *bias; // cuDNN's descriptors
	int algorithm;
	const void *address_input, *address_filter, *address_bias;
	void *address_output;
	int wide; // scalars are f64
};

// Creates cuDNN's handle. Returns 0, or 1 with a message.
int cudnn_create(struct cudnn **ret_cudnn, char *problem, size_t capacity);
void cudnn_destroy(struct cudnn *cudnn);
// Completes the plan. Returns 0, or 1 if cuDNN has no algorithm within the rules. Call with the set's context current.
int cudnn_plan(struct cudnn *cudnn, struct operation_plan *plan, const struct checked_convolution *checked,
	       struct operation_rules rules);
