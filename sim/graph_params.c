// Creates operations from the parameters of nodes.
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "event.h"
#include "graph.h"
#include "launch.h"
#include "stream.h"

CUresult sim_params_fill(CUgraphNodeType type, const void *given, size_t size, CUgraphNodeParams *ret_params)
{
	if (!given)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_params = (CUgraphNodeParams){.type = type};
	memcpy(ret_params->reserved1, given, size);
	return CUDA_SUCCESS;
}

static CUresult get_context(CUcontext handle, struct sim_context **ret_context)
{
	return handle ? sim_context_get(handle, ret_context) : sim_context_current(ret_context);
}

static CUresult new_kernel_op(const CUDA_KERNEL_NODE_PARAMS_v2 *params, struct sim_op **ret_op)
{
	struct sim_context *context;
	struct sim_launch_request request = {
		.grid = {params->gridDimX, params->gridDimY, params->gridDimZ},
		.block = {params->blockDimX, params->blockDimY, params->blockDimZ},
		.shared = params->sharedMemBytes,
		.parameters = params->kernelParams,
		.extra = params->extra,
	};
	CUfunction function = params->func ? params->func : (CUfunction)params->kern;

	if (!function || (params->func && params->kern))
		return CUDA_ERROR_INVALID_VALUE;
	if (params->ctx)
		SIM_TRY(sim_context_get(params->ctx, &context));
	else if (function->magic == SIM_FUNCTION_MAGIC)
		context = function->module->context;
	else
		SIM_TRY(sim_context_current(&context));
	SIM_TRY(sim_function_get(function, context, &request.function));
	return sim_launch_op_new(context, &request, ret_op);
}

static CUresult new_copy_op(const CUDA_MEMCPY3D *copy, CUcontext handle, struct sim_op **ret_op)
{
	struct sim_context *context;

	SIM_TRY(get_context(handle, &context));
	return sim_copy_op_new(context, copy, ret_op);
}

static CUresult new_set_op(const CUDA_MEMSET_NODE_PARAMS_v2 *set, struct sim_op **ret_op)
{
	struct sim_context *context;

	SIM_TRY(get_context(set->ctx, &context));
	return sim_set_op_new(context, (const CUDA_MEMSET_NODE_PARAMS *)set,
			      ret_op); // the newer struct begins with the older one
}

static CUresult new_host_op(const CUDA_HOST_NODE_PARAMS_v2 *host, struct sim_op **ret_op)
{
	struct sim_context *context;

	if (!host->fn)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_context_current(&context));
	*ret_op = sim_host_op_new(context, host->fn, host->userData);
	return CUDA_SUCCESS;
}

static CUresult new_event_op(const struct sim_op_class *class, CUevent handle, struct sim_op **ret_op)
{
	struct sim_event *event;

	SIM_TRY(sim_event_get(handle, &event));
	*ret_op = &sim_event_op_new(class, event->context, event)->op;
	return CUDA_SUCCESS;
}

static CUresult new_memop_op(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 *params, struct sim_op **ret_op)
{
	struct sim_context *context;

	SIM_TRY(get_context(params->ctx, &context));
	return sim_memop_op_new(context, params->count, params->paramArray, params->flags, ret_op);
}

CUresult sim_node_op(const CUgraphNodeParams *params, struct sim_op **ret_op)
{
	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return new_kernel_op((const CUDA_KERNEL_NODE_PARAMS_v2 *)&params->kernel, ret_op);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		if (params->memcpy.flags)
			return CUDA_ERROR_INVALID_VALUE;
		return new_copy_op(&params->memcpy.copyParams, params->memcpy.copyCtx, ret_op);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return new_set_op(&params->memset, ret_op);
	case CU_GRAPH_NODE_TYPE_HOST:
		return new_host_op(&params->host, ret_op);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return new_event_op(&sim_event_wait_class, params->eventWait.event, ret_op);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return new_event_op(&sim_event_record_class, params->eventRecord.event, ret_op);
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return new_memop_op(&params->memOp, ret_op);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
		return CUDA_ERROR_NOT_SUPPORTED; // the simulator has no external semaphores
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}
