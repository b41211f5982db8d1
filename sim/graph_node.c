// Implements the driver's functions that read and change the parameters of nodes.
#include <stdlib.h>

#include "copy.h"
#include "entry.h"
#include "event.h"
#include "graph.h"
#include "launch.h"
#include "stream.h"

static CUresult check_type(CUgraphNode node, CUgraphNodeType type)
{
	SIM_TRY(sim_node_get(node));
	return node->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Returns the parameters, which belong to the node and are valid until the node is changed or destroyed.
static CUresult get_kernel_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *ret_params)
{
	if (!ret_params)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_type(node, CU_GRAPH_NODE_TYPE_KERNEL));
	struct sim_launch_op *launch = (struct sim_launch_op *)node->op;
	const struct ptx_function_info *info = launch->function->info;
	void **pointers = realloc(node->pointers, (info->parameter_count + 1) * sizeof *pointers);
	if (!pointers)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->pointers = pointers;
	for (size_t i = 0; i < info->parameter_count; i++)
		pointers[i] = (unsigned char *)launch->arguments + info->parameters[i].offset;
	*ret_params = (CUDA_KERNEL_NODE_PARAMS){
		.func = node->kernel ? NULL : launch->function,
		.gridDimX = launch->grid[0],
		.gridDimY = launch->grid[1],
		.gridDimZ = launch->grid[2],
		.blockDimX = launch->block[0],
		.blockDimY = launch->block[1],
		.blockDimZ = launch->block[2],
		.sharedMemBytes = launch->shared,
		.kernelParams = pointers,
		.kern = node->kernel,
		.ctx = sim_context_handle(node->op->context),
	};
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUDA_KERNEL_NODE_PARAMS params;

	SIM_ENTER(cuGraphKernelNodeGetParams);
	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(get_kernel_params(hNode, &params));
	memcpy(nodeParams, &params, sizeof *nodeParams);
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	SIM_ENTER(cuGraphKernelNodeGetParams_v2);
	return get_kernel_params(hNode, nodeParams);
}

static CUresult replace_op(CUgraphNode node, const CUgraphNodeParams *params)
{
	struct sim_op *op;

	SIM_TRY(check_type(node, params->type));
	SIM_TRY(sim_node_op(params, &op));
	if (params->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		// The node keeps its attributes when its parameters change.
		struct sim_launch_op *before = (struct sim_launch_op *)node->op, *after = (struct sim_launch_op *)op;
		after->attributes = before->attributes;
		after->cooperative = before->cooperative;
		before->attributes = NULL;
		node->kernel = params->kernel.func ? NULL : params->kernel.kern;
	}
	sim_op_free(node->op);
	node->op = op;
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphKernelNodeSetParams);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, sizeof *nodeParams, &params));
	return replace_op(hNode, &params);
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphKernelNodeSetParams_v2);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, sizeof *nodeParams, &params));
	return replace_op(hNode, &params);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	SIM_ENTER(cuGraphMemcpyNodeGetParams);
	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_type(hNode, CU_GRAPH_NODE_TYPE_MEMCPY));
	*nodeParams = ((struct sim_copy_op *)hNode->op)->copy;
	return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

	SIM_ENTER(cuGraphMemcpyNodeSetParams);
	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_type(hNode, CU_GRAPH_NODE_TYPE_MEMCPY));
	params.memcpy.copyParams = *nodeParams;
	params.memcpy.copyCtx = sim_context_handle(hNode->op->context);
	return replace_op(hNode, &params);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS_v1 *nodeParams)
{
	SIM_ENTER(cuGraphMemsetNodeGetParams);
	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_type(hNode, CU_GRAPH_NODE_TYPE_MEMSET));
	memcpy(nodeParams, &((struct sim_set_op *)hNode->op)->set, sizeof *nodeParams);
	return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphMemsetNodeSetParams);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_MEMSET, nodeParams, sizeof *nodeParams, &params));
	SIM_TRY(check_type(hNode, CU_GRAPH_NODE_TYPE_MEMSET));
	params.memset.ctx = sim_context_handle(hNode->op->context);
	return replace_op(hNode, &params);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	SIM_ENTER(cuGraphHostNodeGetParams);
	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_type(hNode, CU_GRAPH_NODE_TYPE_HOST));
	const struct sim_host_op *host = (const struct sim_host_op *)hNode->op;
	nodeParams->fn = host->function;
	nodeParams->userData = host->data;
	return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphHostNodeSetParams);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_HOST, nodeParams, sizeof *nodeParams, &params));
	return replace_op(hNode, &params);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	SIM_ENTER(cuGraphChildGraphNodeGetGraph);
	if (!phGraph)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_type(hNode, CU_GRAPH_NODE_TYPE_GRAPH));
	*phGraph = hNode->child;
	return CUDA_SUCCESS;
}

static CUresult get_event(CUgraphNode node, CUgraphNodeType type, CUevent *ret_event)
{
	if (!ret_event)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_type(node, type));
	*ret_event = (CUevent)((struct sim_event_op *)node->op)->event;
	return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	SIM_ENTER(cuGraphEventRecordNodeGetEvent);
	return get_event(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
	SIM_ENTER(cuGraphEventWaitNodeGetEvent);
	return get_event(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};

	SIM_ENTER(cuGraphEventRecordNodeSetEvent);
	params.eventRecord.event = event;
	return replace_op(hNode, &params);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT};

	SIM_ENTER(cuGraphEventWaitNodeSetEvent);
	params.eventWait.event = event;
	return replace_op(hNode, &params);
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
	SIM_ENTER(cuGraphBatchMemOpNodeGetParams);
	if (!nodeParams_out)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_type(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP));
	const struct sim_memop_op *op = (const struct sim_memop_op *)hNode->op;
	nodeParams_out->ctx = sim_context_handle(hNode->op->context);
	nodeParams_out->count = op->count;
	nodeParams_out->paramArray = op->params;
	nodeParams_out->flags = op->flags;
	return CUDA_SUCCESS;
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphBatchMemOpNodeSetParams);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, nodeParams, sizeof *nodeParams, &params));
	return replace_op(hNode, &params);
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	SIM_ENTER(cuGraphMemAllocNodeGetParams);
	if (!params_out)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_type(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC));
	memcpy(params_out, &hNode->memory->params, sizeof *params_out);
	return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	SIM_ENTER(cuGraphMemFreeNodeGetParams);
	if (!dptr_out)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_type(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE));
	*dptr_out = hNode->freed;
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	SIM_ENTER(cuGraphNodeSetParams);
	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	return replace_op(hNode, nodeParams);
}

// ---- attributes of kernel nodes ---------------------------------------------------------

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value)
{
	SIM_ENTER(cuGraphKernelNodeSetAttribute);
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_type(hNode, CU_GRAPH_NODE_TYPE_KERNEL));
	struct sim_launch_op *launch = (struct sim_launch_op *)hNode->op;
	struct sim_launch_attributes changed =
		launch->attributes ? *launch->attributes : (struct sim_launch_attributes){0};
	SIM_TRY(sim_launch_attributes_add(&changed, attr, value));
	if (attr == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
		SIM_TRY(sim_launch_cluster(launch->function, launch->grid, &changed, (unsigned[3]){0}));
	if (!launch->attributes && !(launch->attributes = calloc(1, sizeof *launch->attributes)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*launch->attributes = changed;
	if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
		launch->cooperative = value->cooperative;
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out)
{
	SIM_ENTER(cuGraphKernelNodeGetAttribute);
	if (!value_out || (unsigned)attr >= SIM_LAUNCH_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_type(hNode, CU_GRAPH_NODE_TYPE_KERNEL));
	const struct sim_launch_op *launch = (const struct sim_launch_op *)hNode->op;
	memset(value_out, 0, sizeof *value_out);
	if (launch->attributes && (launch->attributes->set & 1u << attr))
		*value_out = launch->attributes->values[attr];
	else if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
		value_out->cooperative = launch->cooperative;
	return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
	struct sim_launch_attributes *copy = NULL;

	SIM_ENTER(cuGraphKernelNodeCopyAttributes);
	SIM_TRY(check_type(dst, CU_GRAPH_NODE_TYPE_KERNEL));
	SIM_TRY(check_type(src, CU_GRAPH_NODE_TYPE_KERNEL));
	if (dst == src)
		return CUDA_SUCCESS;
	struct sim_launch_op *to = (struct sim_launch_op *)dst->op;
	const struct sim_launch_op *from = (const struct sim_launch_op *)src->op;
	if (from->attributes) {
		copy = malloc(sizeof *copy);
		if (!copy)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*copy = *from->attributes;
	}
	free(to->attributes);
	to->attributes = copy;
	to->cooperative = from->cooperative;
	return CUDA_SUCCESS;
}
