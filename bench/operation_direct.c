#include "operation_direct.h"

#include "driver/math.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct direct {
	const struct vg_cublaslt *api;
	cublasLtHandle_t handle;
	cublasLtMatmulDescOpaque_t operation;
	cublasLtMatrixLayoutOpaque_t a, b, c;
	cublasLtMatmulHeuristicResult_t chosen;
	const struct vg_matrix_multiply *d;
	char says[64];
};

static void check(cublasStatus_t status, const char *call)
{
	if (status == CUBLAS_STATUS_SUCCESS)
		return;
	fprintf(stderr, "bench_operation: %s: %d\n", call, (int)status);
	exit(1);
}

static void describe(struct direct *direct)
{
	static const cudaDataType types[] = {CUDA_R_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF, CUDA_R_64F};
	const struct vg_cublaslt *api = direct->api;
	const struct vg_matrix_multiply *d = direct->d;
	cublasComputeType_t compute = d->type == VG_F64	   ? CUBLAS_COMPUTE_64F
				      : d->type == VG_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
							   : CUBLAS_COMPUTE_32F;

	check(api->cublasLtMatmulDescInit_internal(&direct->operation, sizeof direct->operation, compute,
						   d->type == VG_F64 ? CUDA_R_64F : CUDA_R_32F),
	      "cublasLtMatmulDescInit");
	// cuBLASLt stores matrices by columns. As the matrices are square, exchanging the two operands has the same
	// effect as transposing.
	check(api->cublasLtMatrixLayoutInit_internal(&direct->a, sizeof direct->a, types[d->type], d->n, d->k,
						     (int64_t)d->n),
	      "cublasLtMatrixLayoutInit");
	check(api->cublasLtMatrixLayoutInit_internal(&direct->b, sizeof direct->b, types[d->type], d->k, d->m,
						     (int64_t)d->k),
	      "cublasLtMatrixLayoutInit");
	check(api->cublasLtMatrixLayoutInit_internal(&direct->c, sizeof direct->c, types[d->type], d->n, d->m,
						     (int64_t)d->n),
	      "cublasLtMatrixLayoutInit");
}

struct direct *direct_create(const struct vg_matrix_multiply *description)
{
	struct direct *direct = calloc(1, sizeof *direct);
	const uint64_t workspace = (uint64_t)32 << 20;
	cublasLtMatmulPreferenceOpaque_t preference;
	char problem[1000];
	int32_t id = -1;
	uint32_t tile = 0;
	size_t size;
	int count;

	if (!direct || vg_cublaslt_load(&direct->api, problem, sizeof problem)) {
		fprintf(stderr, "bench_operation: %s\n", direct ? problem : "no memory");
		free(direct);
		return NULL;
	}
	const struct vg_cublaslt *api = direct->api;
	direct->d = description;
	check(api->cublasLtCreate(&direct->handle), "cublasLtCreate");
	describe(direct);
	check(api->cublasLtMatmulPreferenceInit_internal(&preference, sizeof preference),
	      "cublasLtMatmulPreferenceInit");
	check(api->cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
							&workspace, sizeof workspace),
	      "cublasLtMatmulPreferenceSetAttribute");
	check(api->cublasLtMatmulAlgoGetHeuristic(direct->handle, &direct->operation, &direct->a, &direct->b,
						  &direct->c, &direct->c, &preference, 1, &direct->chosen, &count),
	      "cublasLtMatmulAlgoGetHeuristic");
	api->cublasLtMatmulAlgoConfigGetAttribute(&direct->chosen.algo, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, &size);
	api->cublasLtMatmulAlgoConfigGetAttribute(&direct->chosen.algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile,
						  sizeof tile, &size);
	snprintf(direct->says, sizeof direct->says, "cuBLASLt %d.%d, algorithm %d, tile %u", api->major, api->minor,
		 (int)id, tile);
	return direct;
}

void direct_destroy(struct direct *direct)
{
	if (direct)
		direct->api->cublasLtDestroy(direct->handle);
	free(direct);
}

size_t direct_workspace(const struct direct *direct)
{
	return direct->chosen.workspaceSize;
}

void direct_run(struct direct *direct, struct CUstream_st *stream, vg_address workspace)
{
	const double one = 1, zero = 0;
	const float one_f32 = 1, zero_f32 = 0;
	bool wide = direct->d->type == VG_F64;
	void *c = (void *)direct->d->c;

	check(direct->api->cublasLtMatmul(direct->handle, &direct->operation, wide ? (void *)&one : (void *)&one_f32,
					  (void *)direct->d->b, &direct->a, (void *)direct->d->a, &direct->b,
					  wide ? (void *)&zero : (void *)&zero_f32, c, &direct->c, c, &direct->c,
					  &direct->chosen.algo, (void *)workspace, direct->chosen.workspaceSize,
					  stream),
	      "cublasLtMatmul");
}

const char *direct_says(const struct direct *direct)
{
	return direct->says;
}
