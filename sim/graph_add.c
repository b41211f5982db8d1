// Implements the driver's functions that add nodes to graphs.
#include <stdlib.h>

#include "context.h"
#include "entry.h"
#include "graph.h"
#include "memory.h"

// Checks that the dependencies belong to the graph and that none is repeated.
static CUresult check_dependencies(CUgraph graph, const CUgraphNode *dependencies, const CUgraphEdgeData *data,
				   size_t count)
{
	SIM_TRY(sim_graph_get(graph));
	if (count && !dependencies)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		SIM_TRY(sim_node_get(dependencies[i]));
		if (dependencies[i]->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
		bool kernel = dependencies[i]->type == CU_GRAPH_NODE_TYPE_KERNEL;
		if (data && (data[i].to_port || (data[i].from_port && !kernel) ||
			     data[i].type > CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC))
			return CUDA_ERROR_INVALID_VALUE;
		for (size_t j = 0; j < i; j++)
			if (dependencies[i] == dependencies[j])
				return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult add_node(CUgraph graph, CUgraphNodeType type, const CUgraphNode *dependencies,
			 const CUgraphEdgeData *data, size_t count, CUgraphNode *ret_node)
{
	struct CUgraphNode_st *node;

	SIM_TRY(sim_node_new(graph, type, &node));
	for (size_t i = 0; i < count; i++) {
		CUresult result = sim_graph_connect(dependencies[i], node, data ? &data[i] : NULL);
		if (result != CUDA_SUCCESS) {
			sim_node_free(node);
			return result;
		}
	}
	*ret_node = node;
	return CUDA_SUCCESS;
}

static CUresult add_op(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *dependencies,
		       const CUgraphEdgeData *data, size_t count, const CUgraphNodeParams *params)
{
	struct sim_op *op;
	CUgraphNode node;

	SIM_TRY(sim_node_op(params, &op));
	CUresult result = add_node(graph, params->type, dependencies, data, count, &node);
	if (result != CUDA_SUCCESS) {
		sim_op_free(op);
		return result;
	}
	node->op = op;
	if (params->type == CU_GRAPH_NODE_TYPE_KERNEL && !params->kernel.func)
		node->kernel = params->kernel.kern;
	*ret_node = node;
	return CUDA_SUCCESS;
}

static CUresult add_child(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *dependencies,
			  const CUgraphEdgeData *data, size_t count, const CUDA_CHILD_GRAPH_NODE_PARAMS *params)
{
	struct CUgraph_st *child = params->graph;
	bool move = params->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
	CUgraphNode node;

	SIM_TRY(sim_graph_get(child));
	// Refuse to put a graph into itself or into a graph inside it, which crashes the real driver.
	for (const struct CUgraph_st *around = graph; around; around = around->owner ? around->owner->graph : NULL)
		if (child == around)
			return CUDA_ERROR_INVALID_VALUE;
	if (sim_graph_contains(child, CU_GRAPH_NODE_TYPE_CONDITIONAL))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (child->owner)
		return CUDA_ERROR_NOT_SUPPORTED; // the graph belongs to another node
	if (!move && (sim_graph_contains(child, CU_GRAPH_NODE_TYPE_MEM_ALLOC) ||
		      sim_graph_contains(child, CU_GRAPH_NODE_TYPE_MEM_FREE)))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!move)
		SIM_TRY(sim_graph_clone(child, &child));
	CUresult result = add_node(graph, CU_GRAPH_NODE_TYPE_GRAPH, dependencies, data, count, &node);
	if (result != CUDA_SUCCESS) {
		if (!move)
			sim_graph_free(child);
		return result;
	}
	child->owner = node;
	node->child = child;
	*ret_node = node;
	return CUDA_SUCCESS;
}

static CUresult add_alloc(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *dependencies,
			  const CUgraphEdgeData *data, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params)
{
	struct sim_graph_memory *memory;
	struct sim_context *context;
	CUgraphNode node;

	SIM_TRY(sim_context_current(&context));
	SIM_TRY(sim_graph_memory_new(context, params, &memory));
	CUresult result = add_node(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, dependencies, data, count, &node);
	if (result != CUDA_SUCCESS) {
		sim_graph_memory_unref(memory);
		return result;
	}
	node->memory = memory;
	params->dptr = memory->address;
	*ret_node = node;
	return CUDA_SUCCESS;
}

static CUresult add_free(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *dependencies,
			 const CUgraphEdgeData *data, size_t count, CUdeviceptr address)
{
	CUgraphNode node;

	SIM_TRY(sim_graph_check_free(graph, address));
	SIM_TRY(add_node(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, dependencies, data, count, &node));
	node->freed = address;
	*ret_node = node;
	return CUDA_SUCCESS;
}

static CUresult add_conditional(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *dependencies,
				const CUgraphEdgeData *data, size_t count, CUDA_CONDITIONAL_NODE_PARAMS *params)
{
	struct sim_condition *condition = sim_graph_find_condition(graph, params->handle);
	unsigned size = params->size;
	CUgraphNode node;

	if (!condition || condition->used || !size || (unsigned)params->type > CU_GRAPH_COND_TYPE_SWITCH ||
	    (params->type == CU_GRAPH_COND_TYPE_WHILE && size != 1) ||
	    (params->type == CU_GRAPH_COND_TYPE_IF && size > 2))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(add_node(graph, CU_GRAPH_NODE_TYPE_CONDITIONAL, dependencies, data, count, &node));
	node->bodies = calloc(size, sizeof *node->bodies);
	CUresult result = node->bodies ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < size && result == CUDA_SUCCESS; i++) {
		result = sim_graph_new(&node->bodies[i]);
		if (result == CUDA_SUCCESS) {
			node->bodies[i]->owner = node;
			node->body_count++;
		}
	}
	if (result != CUDA_SUCCESS) {
		sim_node_free(node);
		return result;
	}
	condition->used = true;
	node->condition = condition;
	node->conditional = params->type;
	params->phGraph_out = node->bodies;
	node->conditional_params = *params;
	*ret_node = node;
	return CUDA_SUCCESS;
}

static CUresult add_typed_node(CUgraphNode *ret_node, CUgraph graph, const CUgraphNode *dependencies,
			       const CUgraphEdgeData *data, size_t count, CUgraphNodeParams *params)
{
	if (!ret_node || !params)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_dependencies(graph, dependencies, data, count));
	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return add_child(ret_node, graph, dependencies, data, count, &params->graph);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return add_node(graph, CU_GRAPH_NODE_TYPE_EMPTY, dependencies, data, count, ret_node);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return add_alloc(ret_node, graph, dependencies, data, count, &params->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return add_free(ret_node, graph, dependencies, data, count, params->free.dptr);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return add_conditional(ret_node, graph, dependencies, data, count, &params->conditional);
	default:
		return add_op(ret_node, graph, dependencies, data, count, params);
	}
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	SIM_ENTER(cuGraphAddNode);
	return add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, nodeParams);
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			   const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	SIM_ENTER(cuGraphAddNode_v2);
	return add_typed_node(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
}

CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			      size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphAddKernelNode);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, sizeof *nodeParams, &params));
	return add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
				 size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphAddKernelNode_v2);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, sizeof *nodeParams, &params));
	return add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			      size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

	SIM_ENTER(cuGraphAddMemcpyNode);
	if (!copyParams)
		return CUDA_ERROR_INVALID_VALUE;
	params.memcpy.copyParams = *copyParams;
	params.memcpy.copyCtx = ctx;
	return add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			      size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS_v1 *memsetParams, CUcontext ctx)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphAddMemsetNode);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_MEMSET, memsetParams, sizeof *memsetParams, &params));
	params.memset.ctx = ctx;
	return add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			    size_t numDependencies, const CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphAddHostNode);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_HOST, nodeParams, sizeof *nodeParams, &params));
	return add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
				  size_t numDependencies, CUgraph childGraph)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};

	SIM_ENTER(cuGraphAddChildGraphNode);
	params.graph.graph = childGraph;
	return add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			     size_t numDependencies)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};

	SIM_ENTER(cuGraphAddEmptyNode);
	return add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
				   size_t numDependencies, CUevent event)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};

	SIM_ENTER(cuGraphAddEventRecordNode);
	params.eventRecord.event = event;
	return add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
				 size_t numDependencies, CUevent event)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT};

	SIM_ENTER(cuGraphAddEventWaitNode);
	params.eventWait.event = event;
	return add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
				  size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphAddBatchMemOpNode);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, nodeParams, sizeof *nodeParams, &params));
	return add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
				size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphAddMemAllocNode);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_MEM_ALLOC, nodeParams, sizeof *nodeParams, &params));
	SIM_TRY(add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params));
	nodeParams->dptr = params.alloc.dptr;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
			       size_t numDependencies, CUdeviceptr dptr)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};

	SIM_ENTER(cuGraphAddMemFreeNode);
	params.free.dptr = dptr;
	return add_typed_node(phGraphNode, hGraph, dependencies, NULL, numDependencies, &params);
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, CUcontext ctx,
					unsigned int defaultLaunchValue, unsigned int flags)
{
	struct sim_context *context;
	CUdeviceptr word;

	SIM_ENTER(cuGraphConditionalHandleCreate);
	if (!pHandle_out || flags > CU_GRAPH_COND_ASSIGN_DEFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_graph_get(hGraph));
	if (ctx)
		SIM_TRY(sim_context_get(ctx, &context));
	else
		SIM_TRY(sim_context_current(&context));
	SIM_TRY(sim_memory_alloc(context, sizeof(unsigned), SIM_RANGE_DEVICE, &word));
	struct sim_condition *condition = calloc(1, sizeof *condition);
	if (!condition) {
		sim_memory_free(word);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*condition = (struct sim_condition){.references = 1,
					    .handle = word,
					    .context = context,
					    .context_id = context->id,
					    .initial = defaultLaunchValue,
					    .reset = flags == CU_GRAPH_COND_ASSIGN_DEFAULT,
					    .next = hGraph->conditions};
	memcpy(sim_memory_translate(context->device, word, sizeof defaultLaunchValue, SIM_WRITE), &defaultLaunchValue,
	       sizeof defaultLaunchValue);
	hGraph->conditions = condition;
	*pHandle_out = word;
	return CUDA_SUCCESS;
}
