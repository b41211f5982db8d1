// Multiplies matrices with cuBLASLt. For this directory only; any thread.
#pragma once
#include "driver/math.h"
#include "operation/operation.h"

struct checked_multiply;
struct cublaslt;

// The parameters of a plan for cuBLASLt.
struct cublaslt_multiply {
	cublasLtMatmulDescOpaque_t operation;
	cublasLtMatrixLayoutOpaque_t a, b, c; // column-major layouts
	cublasLtMatmulAlgo_t algorithm;
	const void *address_a, *address_b;
	void *address_c;
	double alpha, beta;
	float alpha_f32, beta_f32;
	bool wide; // scalars are f64
};

// Creates cuBLASLt's handle. Call with the context current. Returns 0, or 1 with a message.
int cublaslt_create(struct cublaslt **ret_cublaslt, char *problem, size_t capacity);
void cublaslt_destroy(struct cublaslt *cublaslt);
// Completes the plan. Returns 0, or 1 if the rules leave no algorithm of cuBLASLt. Call with the set's context current.
int cublaslt_plan(struct cublaslt *cublaslt, struct operation_plan *plan, const struct checked_multiply *checked,
		  struct operation_rules rules);
