// Converts parameters of graph nodes to the driver's and back.
#include "graph.h"

CUcontext rt_current_context(void)
{
	CUcontext context = NULL;

	rt_driver.cuCtxGetCurrent(&context);
	return context;
}

cudaError_t rt_kernel_node(const struct cudaKernelNodeParams *params, CUDA_KERNEL_NODE_PARAMS_v2 *ret_params)
{
	CUkernel kernel;

	if (!params)
		return cudaErrorInvalidValue;
	RT_TRY(rt_kernel_find(params->func, &kernel));
	*ret_params = (CUDA_KERNEL_NODE_PARAMS_v2){
		.kern = kernel,
		.gridDimX = params->gridDim.x,
		.gridDimY = params->gridDim.y,
		.gridDimZ = params->gridDim.z,
		.blockDimX = params->blockDim.x,
		.blockDimY = params->blockDim.y,
		.blockDimZ = params->blockDim.z,
		.sharedMemBytes = params->sharedMemBytes,
		.kernelParams = params->kernelParams,
		.extra = params->extra,
	};
	return cudaSuccess;
}

struct cudaKernelNodeParams rt_kernel_node_back(const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
	const void *stub = rt_table_find_kernel(params->kern, params->func);

	return (struct cudaKernelNodeParams){
		.func = stub	       ? (void *)stub
			: params->kern ? (void *)params->kern
				       : (void *)params->func,
		.gridDim = {params->gridDimX, params->gridDimY, params->gridDimZ},
		.blockDim = {params->blockDimX, params->blockDimY, params->blockDimZ},
		.sharedMemBytes = params->sharedMemBytes,
		.kernelParams = params->kernelParams,
		.extra = params->extra,
	};
}

static cudaError_t convert_kernel_node(const struct cudaKernelNodeParamsV2 *params,
				       CUDA_KERNEL_NODE_PARAMS_v3 *ret_params)
{
	const struct cudaKernelNodeParams plain = {
		.func = params->func,
		.gridDim = params->gridDim,
		.blockDim = params->blockDim,
		.sharedMemBytes = params->sharedMemBytes,
		.kernelParams = params->kernelParams,
		.extra = params->extra,
	};
	CUDA_KERNEL_NODE_PARAMS_v2 made;

	RT_TRY(rt_kernel_node(&plain, &made));
	_Static_assert(sizeof made == sizeof *ret_params, "both versions are alike");
	memcpy(ret_params, &made, sizeof made);
	return cudaSuccess;
}

_Static_assert(sizeof(struct cudaMemAllocNodeParamsV2) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2), "copied unchanged");
_Static_assert(sizeof(struct cudaChildGraphNodeParams) == sizeof(CUDA_CHILD_GRAPH_NODE_PARAMS), "copied unchanged");
_Static_assert(sizeof(struct cudaExternalSemaphoreSignalNodeParamsV2) == sizeof(CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2),
	       "copied unchanged");

cudaError_t rt_node(const struct cudaGraphNodeParams *params, CUgraphNodeParams *ret_params)
{
	CUgraphNodeParams made = {0};

	if (!params)
		return cudaErrorInvalidValue;
	made.type = (CUgraphNodeType)params->type;
	switch (params->type) {
	case cudaGraphNodeTypeKernel:
		RT_TRY(convert_kernel_node(&params->kernel, &made.kernel));
		break;
	case cudaGraphNodeTypeMemcpy:
		made.memcpy.flags = params->memcpy.flags;
		made.memcpy.copyCtx = rt_current_context();
		RT_TRY(rt_copy_3d(&params->memcpy.copyParams, &made.memcpy.copyParams));
		break;
	case cudaGraphNodeTypeMemset:
		memcpy(&made.memset, &params->memset, sizeof params->memset);
		made.memset.ctx = rt_current_context();
		break;
	case cudaGraphNodeTypeConditional:
		made.conditional.handle = params->conditional.handle;
		made.conditional.type = (CUgraphConditionalNodeType)params->conditional.type;
		made.conditional.size = params->conditional.size;
		made.conditional.ctx = rt_current_context();
		break;
	default: // the structs have the same layout
		memcpy(made.reserved1, params->reserved1, sizeof made.reserved1);
		break;
	}
	*ret_params = made;
	return cudaSuccess;
}

void rt_node_results(const CUgraphNodeParams *from, struct cudaGraphNodeParams *to)
{
	if (to->type == cudaGraphNodeTypeMemAlloc)
		to->alloc.dptr = (void *)from->alloc.dptr;
	else if (to->type == cudaGraphNodeTypeConditional)
		to->conditional.phGraph_out = from->conditional.phGraph_out;
}
