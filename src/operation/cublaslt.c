// Multiplies matrices with cuBLASLt, whose matrices are column-major. A row-major m x n matrix is a column-major n x m
// matrix. C = A * B becomes C' = B' * A', so the operands are swapped and nothing is transposed. A bias for each column
// of C becomes a bias for each row of C', the only form that cuBLASLt has.
#include "operation/cublaslt.h"

#include "operation/cache.h"
#include "operation/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// NVIDIA recommends this size for Hopper; an algorithm may need less.
#define MAX_WORKSPACE ((uint64_t)32 << 20)
enum { CANDIDATES = 8, ALIGNMENT = 256 };
#define NARROW_INPUTS                                                                         \
	(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32 | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F | \
	 CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF)

struct cublaslt {
	const struct vg_cublaslt *api;
	cublasLtHandle_t handle; // any thread may use the handle
	struct operation_cache cache;
};

// The key of the cache: all inputs to the choice of an algorithm, without padding.
struct question {
	uint64_t m, n, k, batch;
	int64_t stride_a, stride_b, stride_c;
	uint32_t type, epilogue, no_tensor_cores, no_workspace, has_beta;
	uint32_t align_a, align_b, align_c, align_bias;
	uint32_t unused; // keeps the structure free of padding
};

struct answer {
	cublasLtMatmulAlgo_t algorithm;
	uint64_t workspace;
	bool none;
};
_Static_assert(sizeof(struct question) <= CACHE_KEY && sizeof(struct answer) <= CACHE_VALUE, "the cache holds them");

static const struct {
	cudaDataType type, scale;
	cublasComputeType_t compute, without_tensor_cores;
} types[] = {
	[VG_F32] = {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC},
	[VG_TF32] = {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_PEDANTIC},
	[VG_F16] = {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC},
	[VG_BF16] = {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC},
	[VG_F64] = {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F_PEDANTIC},
};

int cublaslt_create(struct cublaslt **ret_cublaslt, char *problem, size_t capacity)
{
	const struct vg_cublaslt *api;

	if (vg_cublaslt_load(&api, problem, capacity))
		return 1;
	struct cublaslt *cublaslt = calloc(1, sizeof *cublaslt);
	cublasStatus_t r = cublaslt ? api->cublasLtCreate(&cublaslt->handle) : CUBLAS_STATUS_ALLOC_FAILED;
	if (r) {
		snprintf(problem, capacity, "%s: cublasLtCreate: %s", api->path, api->cublasLtGetStatusName(r));
		free(cublaslt);
		return 1;
	}
	cublaslt->api = api;
	*ret_cublaslt = cublaslt;
	return 0;
}

void cublaslt_destroy(struct cublaslt *cublaslt)
{
	if (cublaslt)
		cublaslt->api->cublasLtDestroy(cublaslt->handle);
	free(cublaslt);
}

// Returns an alignment that holds for the matrices of all products.
static uint32_t compute_alignment(vg_address address, int64_t stride, const struct checked_multiply *checked)
{
	uint64_t bits = address | (checked->d.batch > 1 ? (uint64_t)stride * checked->type->bytes : 0);

	return bits % ALIGNMENT ? (uint32_t)(bits & -bits) : ALIGNMENT;
}

static struct question make_question(const struct checked_multiply *checked, struct operation_rules rules)
{
	const struct vg_matrix_multiply *d = &checked->d;
	struct question q;

	memset(&q, 0, sizeof q);
	q.m = d->m;
	q.n = d->n;
	q.k = d->k;
	q.batch = d->batch;
	q.stride_a = d->stride_a;
	q.stride_b = d->stride_b;
	q.stride_c = d->stride_c;
	q.type = (uint32_t)d->type;
	q.epilogue = (uint32_t)d->epilogue;
	q.no_tensor_cores = rules.no_tensor_cores;
	q.no_workspace = rules.no_workspace;
	q.has_beta = d->beta != 0;
	q.align_a = compute_alignment(d->a, d->stride_a, checked);
	q.align_b = compute_alignment(d->b, d->stride_b, checked);
	q.align_c = compute_alignment(d->c, d->stride_c, checked);
	q.align_bias = compute_alignment(d->bias, 0, checked);
	return q;
}

static cublasStatus_t describe_matrix(const struct vg_cublaslt *api, cublasLtMatrixLayoutOpaque_t *layout,
				      cudaDataType type, uint64_t rows, uint64_t columns, int32_t batch, int64_t stride)
{
	cublasStatus_t r =
		api->cublasLtMatrixLayoutInit_internal(layout, sizeof *layout, type, columns, rows, (int64_t)columns);
	if (r == CUBLAS_STATUS_SUCCESS)
		r = api->cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
							  sizeof batch);
	if (r == CUBLAS_STATUS_SUCCESS)
		r = api->cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
							  sizeof stride);
	return r;
}

static cublasStatus_t describe_operation(const struct vg_cublaslt *api, struct cublaslt_multiply *multiply,
					 const struct vg_matrix_multiply *d, struct operation_rules rules)
{
	static const cublasLtEpilogue_t epilogues[] = {
		[VG_EPILOGUE_NONE] = CUBLASLT_EPILOGUE_DEFAULT, [VG_EPILOGUE_BIAS] = CUBLASLT_EPILOGUE_BIAS,
		[VG_EPILOGUE_RELU] = CUBLASLT_EPILOGUE_RELU,	[VG_EPILOGUE_RELU_BIAS] = CUBLASLT_EPILOGUE_RELU_BIAS,
		[VG_EPILOGUE_GELU] = CUBLASLT_EPILOGUE_GELU,	[VG_EPILOGUE_GELU_BIAS] = CUBLASLT_EPILOGUE_GELU_BIAS,
	};
	const void *bias = (const void *)d->bias;

	cublasStatus_t r = api->cublasLtMatmulDescInit_internal(
		&multiply->operation, sizeof multiply->operation,
		rules.no_tensor_cores ? types[d->type].without_tensor_cores : types[d->type].compute,
		types[d->type].scale);
	if (r == CUBLAS_STATUS_SUCCESS)
		r = api->cublasLtMatmulDescSetAttribute(&multiply->operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
							&epilogues[d->epilogue], sizeof epilogues[d->epilogue]);
	if (r == CUBLAS_STATUS_SUCCESS && bias)
		r = api->cublasLtMatmulDescSetAttribute(&multiply->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
							sizeof bias);
	return r;
}

static cublasStatus_t describe_all(const struct vg_cublaslt *api, struct cublaslt_multiply *multiply,
				   const struct vg_matrix_multiply *d, struct operation_rules rules)
{
	cudaDataType type = types[d->type].type;
	int32_t batch = (int32_t)d->batch;

	cublasStatus_t r = describe_operation(api, multiply, d, rules);
	if (r == CUBLAS_STATUS_SUCCESS)
		r = describe_matrix(api, &multiply->a, type, d->k, d->n, batch, d->stride_b);
	if (r == CUBLAS_STATUS_SUCCESS)
		r = describe_matrix(api, &multiply->b, type, d->m, d->k, batch, d->stride_a);
	if (r == CUBLAS_STATUS_SUCCESS)
		r = describe_matrix(api, &multiply->c, type, d->m, d->n, batch, d->stride_c);
	return r;
}

// Sets the requirements for an algorithm. The reduction must use the compute type, so that results are rounded only
// once, at the end.
static cublasStatus_t set_preferences(const struct vg_cublaslt *api, cublasLtMatmulPreferenceOpaque_t *preference,
				      const struct question *q)
{
	const uint64_t workspace = q->no_workspace ? 0 : MAX_WORKSPACE,
		       without = ~(uint64_t)CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK;
	const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	const struct {
		cublasLtMatmulPreferenceAttributes_t attribute;
		const void *value;
		size_t size;
	} attributes[] = {
		{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
		{CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction, sizeof reduction},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &q->align_b, sizeof q->align_b},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &q->align_a, sizeof q->align_a},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &q->align_c, sizeof q->align_c},
		{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &q->align_c, sizeof q->align_c},
		// This must be the last element: `count` includes it only if tensor cores are forbidden.
		{CUBLASLT_MATMUL_PREF_IMPL_MASK, &without, sizeof without},
	};
	size_t count = sizeof attributes / sizeof *attributes - !q->no_tensor_cores;

	cublasStatus_t r = api->cublasLtMatmulPreferenceInit_internal(preference, sizeof *preference);
	for (size_t i = 0; r == CUBLAS_STATUS_SUCCESS && i < count; i++)
		r = api->cublasLtMatmulPreferenceSetAttribute(preference, attributes[i].attribute, attributes[i].value,
							      attributes[i].size);
	return r;
}

static uint64_t read_flags(const struct vg_cublaslt *api, const cublasLtMatmulAlgo_t *algorithm)
{
	uint64_t flags = 0;
	size_t size;

	return api->cublasLtMatmulAlgoCapGetAttribute(algorithm, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &flags,
						      sizeof flags, &size)
		       ? 0
		       : flags;
}

// Returns whether the algorithm reports that it uses only FMA.
static bool is_fma(uint64_t flags)
{
	return (flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_OP_TYPE_MASK) == CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA &&
	       !(flags & NARROW_INPUTS);
}

// Returns whether the algorithm may run. Asks the algorithm for its properties, because the heuristic may have ignored
// the mask among the preferences.
static bool may_run(const struct vg_cublaslt *api, const cublasLtMatmulHeuristicResult_t *candidate,
		    const struct question *q)
{
	uint64_t flags = read_flags(api, &candidate->algo);

	if (candidate->state)
		return false;
	return q->no_tensor_cores ? is_fma(flags) : q->type != VG_F32 || !(flags & NARROW_INPUTS);
}

static struct answer choose_algorithm(struct cublaslt *cublaslt, struct cublaslt_multiply *multiply,
				      const struct question *q)
{
	cublasLtMatmulHeuristicResult_t candidates[CANDIDATES];
	const struct vg_cublaslt *api = cublaslt->api;
	cublasLtMatmulPreferenceOpaque_t preference;
	struct answer answer;
	int count = 0;

	memset(&answer, 0, sizeof answer);
	cublasStatus_t r = set_preferences(api, &preference, q);
	if (r == CUBLAS_STATUS_SUCCESS)
		r = api->cublasLtMatmulAlgoGetHeuristic(cublaslt->handle, &multiply->operation, &multiply->a,
							&multiply->b, &multiply->c, &multiply->c, &preference,
							CANDIDATES, candidates, &count);
	for (int i = 0; r == CUBLAS_STATUS_SUCCESS && i < count; i++)
		if (may_run(api, &candidates[i], q)) {
			answer.algorithm = candidates[i].algo;
			answer.workspace = candidates[i].workspaceSize;
			return answer;
		}
	answer.none = true;
	return answer;
}

static enum vg_status run_multiply(struct operation_plan *plan, CUstream stream, vg_address workspace)
{
	struct cublaslt *cublaslt = plan->set->cublaslt;
	struct cublaslt_multiply *m = &plan->multiply;

	cublasStatus_t r = cublaslt->api->cublasLtMatmul(
		cublaslt->handle, &m->operation, m->wide ? (void *)&m->alpha : (void *)&m->alpha_f32, m->address_a,
		&m->a, m->address_b, &m->b, m->wide ? (void *)&m->beta : (void *)&m->beta_f32, m->address_c, &m->c,
		m->address_c, &m->c, &m->algorithm, (void *)workspace, plan->workspace, stream);
	if (r == CUBLAS_STATUS_SUCCESS)
		return VG_OK;
	return vg_fail(VG_DRIVER, 0, "cublasLtMatmul: %s; %s", cublaslt->api->cublasLtGetStatusName(r), plan->says);
}

static void describe_choice(struct operation_plan *plan, const struct vg_cublaslt *api)
{
	cublasLtMatmulAlgo_t *algorithm = &plan->multiply.algorithm;
	uint64_t flags = read_flags(api, algorithm);
	uint32_t tile = 0;
	int32_t id = -1;
	size_t size;

	api->cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, &size);
	api->cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile, &size);
	snprintf(plan->says, sizeof plan->says, "cuBLASLt %d.%d, algorithm %d, tile %u, flags 0x%llx%s", api->major,
		 api->minor, (int)id, tile, (unsigned long long)flags, is_fma(flags) ? ", no tensor cores" : "");
}

int cublaslt_plan(struct cublaslt *cublaslt, struct operation_plan *plan, const struct checked_multiply *checked,
		  struct operation_rules rules)
{
	const struct vg_matrix_multiply *d = &checked->d;
	struct cublaslt_multiply *multiply = &plan->multiply;
	const struct question question = make_question(checked, rules);
	struct answer answer;

	// For other types than f32 and f64, cuBLASLt's reports about tensor cores are not reliable. Version 13.1 has a
	// tf32 algorithm that claims to use none, but reaches 345 TFLOP/s on an H200, which is impossible without them.
	if (rules.no_tensor_cores && d->type != VG_F32 && d->type != VG_F64)
		return 1;
	// The GELU of cuBLASLt for f64 is only as exact as that for f32.
	if (d->type == VG_F64 && (d->epilogue == VG_EPILOGUE_GELU || d->epilogue == VG_EPILOGUE_GELU_BIAS))
		return 1;
	// With alpha 0, cuBLASLt may still multiply, so NaN inputs give NaN.
	if (d->alpha == 0 || d->batch > INT32_MAX || describe_all(cublaslt->api, multiply, d, rules))
		return 1;
	if (!operation_cache_find(&cublaslt->cache, &question, sizeof question, &answer, sizeof answer)) {
		answer = choose_algorithm(cublaslt, multiply, &question);
		operation_cache_keep(&cublaslt->cache, &question, sizeof question, &answer, sizeof answer);
	}
	if (answer.none)
		return 1;
	multiply->algorithm = answer.algorithm;
	multiply->address_a = (const void *)d->b;
	multiply->address_b = (const void *)d->a;
	multiply->address_c = (void *)d->c;
	multiply->alpha = d->alpha;
	multiply->beta = d->beta;
	multiply->alpha_f32 = (float)d->alpha;
	multiply->beta_f32 = (float)d->beta;
	multiply->wide = d->type == VG_F64;
	plan->provider = OPERATION_CUBLASLT;
	plan->workspace = answer.workspace;
	plan->run = run_multiply;
	describe_choice(plan, cublaslt->api);
	return 0;
}
