// Matrix multiplication by cuBLASLt. This room only; any thread.
#pragma once
#include "driver/math.h"
#include "operation/operation.h"

struct checked_multiply;
struct cublaslt;

// What a plan of cuBLASLt runs.
struct cublaslt_multiply {
	cublasLtMatmulDescOpaque_t operation;
	cublasLtMatrixLayoutOpaque_t a, b, c; // as cuBLASLt sees them: by columns
	cublasLtMatmulAlgo_t algorithm;
	const void *address_a, *address_b;
	void *address_c;
	double alpha, beta;
	float alpha_f32, beta_f32;
	bool wide; // f64
};

// In the context that is current. 0, or 1 with a sentence.
int cublaslt_create(struct cublaslt **ret_cublaslt, char *problem, size_t capacity);
void cublaslt_destroy(struct cublaslt *cublaslt);
// Fills in how the plan runs: 0. 1: it has nothing for this within the rules. In the set's context.
int cublaslt_plan(struct cublaslt *cublaslt, struct operation_plan *plan, const struct checked_multiply *checked,
		  struct operation_rules rules);
