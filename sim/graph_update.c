// Implements changes of executable graphs.
#include <stdlib.h>

#include "context.h"
#include "entry.h"
#include "graph.h"
#include "launch.h"

// Finds the node's step in exec->program, so that the caller can change it. If a launch uses the program, replaces it
// by a copy first. On success, exec->lock stays held.
static CUresult open_step(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, struct sim_step **ret_step)
{
	struct sim_program *program;

	SIM_TRY(sim_graph_exec_get(exec));
	if (!node)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&exec->lock);
	CUresult result = sim_graph_exec_unshare(exec, &program);
	struct sim_step *step = result == CUDA_SUCCESS ? sim_program_find_step(program, node) : NULL;
	if (!step || step->type != type) {
		pthread_mutex_unlock(&exec->lock);
		return result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result;
	}
	*ret_step = step;
	return CUDA_SUCCESS;
}

static CUresult replace_op(struct sim_step *step, struct sim_op *op)
{
	if (step->op->context->parent != op->context->parent) {
		sim_op_free(op);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (step->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		struct sim_launch_op *before = (struct sim_launch_op *)step->op, *after = (struct sim_launch_op *)op;
		after->attributes = before->attributes;
		after->cooperative = before->cooperative;
		before->attributes = NULL;
	}
	sim_op_free(step->op);
	step->op = op;
	return CUDA_SUCCESS;
}

static CUresult set_params(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams *params)
{
	struct sim_step *step;
	struct sim_op *op;

	SIM_TRY(open_step(exec, node, params->type, &step));
	CUresult result = sim_node_op(params, &op);
	if (result == CUDA_SUCCESS)
		result = replace_op(step, op);
	pthread_mutex_unlock(&exec->lock);
	return result;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphExecKernelNodeSetParams);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, sizeof *nodeParams, &params));
	return set_params(hGraphExec, hNode, &params);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
					   const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphExecKernelNodeSetParams_v2);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, sizeof *nodeParams, &params));
	return set_params(hGraphExec, hNode, &params);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams,
					CUcontext ctx)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

	SIM_ENTER(cuGraphExecMemcpyNodeSetParams);
	if (!copyParams)
		return CUDA_ERROR_INVALID_VALUE;
	params.memcpy.copyParams = *copyParams;
	params.memcpy.copyCtx = ctx;
	return set_params(hGraphExec, hNode, &params);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					const CUDA_MEMSET_NODE_PARAMS_v1 *memsetParams, CUcontext ctx)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphExecMemsetNodeSetParams);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_MEMSET, memsetParams, sizeof *memsetParams, &params));
	params.memset.ctx = ctx;
	return set_params(hGraphExec, hNode, &params);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
				      const CUDA_HOST_NODE_PARAMS_v1 *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphExecHostNodeSetParams);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_HOST, nodeParams, sizeof *nodeParams, &params));
	return set_params(hGraphExec, hNode, &params);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};

	SIM_ENTER(cuGraphExecEventRecordNodeSetEvent);
	params.eventRecord.event = event;
	return set_params(hGraphExec, hNode, &params);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT};

	SIM_ENTER(cuGraphExecEventWaitNodeSetEvent);
	params.eventWait.event = event;
	return set_params(hGraphExec, hNode, &params);
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					    const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	CUgraphNodeParams params;

	SIM_ENTER(cuGraphExecBatchMemOpNodeSetParams);
	SIM_TRY(sim_params_fill(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, nodeParams, sizeof *nodeParams, &params));
	return set_params(hGraphExec, hNode, &params);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	SIM_ENTER(cuGraphExecNodeSetParams);
	if (!nodeParams)
		return CUDA_ERROR_INVALID_VALUE;
	return set_params(hGraphExec, hNode, nodeParams);
}

// ---- whole updates --------------------------------------------------------------------------

static CUresult report_failure(CUgraphExecUpdateResultInfo *info, CUgraphExecUpdateResult why, CUgraphNode node)
{
	info->result = why;
	info->errorNode = node;
	return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

static CUresult check_kernel(const struct sim_step *before, const struct sim_step *after,
			     CUgraphExecUpdateResultInfo *info)
{
	const struct sim_launch_op *a = (const struct sim_launch_op *)before->op;
	const struct sim_launch_op *b = (const struct sim_launch_op *)after->op;

	if (a->op.context->parent != b->op.context->parent)
		return report_failure(info, CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE,
				      (CUgraphNode)after->source);
	if (a->cooperative != b->cooperative)
		return report_failure(info, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED, (CUgraphNode)after->source);
	return CUDA_SUCCESS;
}

// Checks that the nodes of the new program differ from those of the old one only in their parameters. Compares the
// nodes one by one in their sorted order, as the driver does.
static CUresult check_update(const struct sim_program *before, struct sim_program *after,
			     CUgraphExecUpdateResultInfo *info)
{
	if (before->count != after->count)
		return report_failure(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL);
	for (size_t i = 0; i < before->count; i++) {
		const struct sim_step *a = &before->steps[i];
		struct sim_step *b = &after->steps[i];
		CUgraphNode node = (CUgraphNode)b->source;
		if (a->type != b->type)
			return report_failure(info, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, node);
		if (a->dependencies != b->dependencies)
			return report_failure(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node);
		if (a->type == CU_GRAPH_NODE_TYPE_KERNEL)
			SIM_TRY(check_kernel(a, b, info));
		if (a->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && a->memory->size != b->memory->size)
			return report_failure(info, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, node);
		if (a->type == CU_GRAPH_NODE_TYPE_CONDITIONAL && a->condition != b->condition)
			return report_failure(info, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, node);
		if (a->body_count != b->body_count)
			return report_failure(info, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED, node);
		for (unsigned n = 0; n < a->body_count; n++)
			SIM_TRY(check_update(a->bodies[n], b->bodies[n], info));
	}
	return CUDA_SUCCESS;
}

// Makes each step of the new program refer to the same node as the old step at its index. Enables or disables it like
// the old step.
static void keep_identity(const struct sim_program *before, struct sim_program *after)
{
	for (size_t i = 0; i < before->count; i++) {
		after->steps[i].source = before->steps[i].source;
		after->steps[i].enabled = before->steps[i].enabled;
		for (unsigned n = 0; n < before->steps[i].body_count; n++)
			keep_identity(before->steps[i].bodies[n], after->steps[i].bodies[n]);
	}
}

static CUresult update_exec(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	struct sim_program *program;

	*info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
	SIM_TRY(sim_graph_exec_get(exec));
	SIM_TRY(sim_graph_get(graph));
	if (graph->owner)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_program_new(graph, &program));
	pthread_mutex_lock(&exec->lock);
	CUresult result = check_update(exec->program, program, info);
	if (result == CUDA_SUCCESS) {
		keep_identity(exec->program, program);
		sim_program_unref(exec->program);
		exec->program = program;
		info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
	} else {
		sim_program_unref(program);
	}
	pthread_mutex_unlock(&exec->lock);
	return result;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
			   CUgraphExecUpdateResult *updateResult_out)
{
	CUgraphExecUpdateResultInfo info;

	SIM_ENTER(cuGraphExecUpdate);
	if (!updateResult_out)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = update_exec(hGraphExec, hGraph, &info);
	if (hErrorNode_out)
		*hErrorNode_out = info.errorNode;
	*updateResult_out = info.result;
	return result;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
	SIM_ENTER(cuGraphExecUpdate_v2);
	if (!resultInfo)
		return CUDA_ERROR_INVALID_VALUE;
	return update_exec(hGraphExec, hGraph, resultInfo);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph)
{
	CUgraphExecUpdateResultInfo info = {0};
	struct sim_program *program;
	struct sim_step *step;

	SIM_ENTER(cuGraphExecChildGraphNodeSetParams);
	SIM_TRY(sim_graph_get(childGraph));
	SIM_TRY(sim_program_new(childGraph, &program));
	CUresult result = open_step(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_GRAPH, &step);
	if (result != CUDA_SUCCESS) {
		sim_program_unref(program);
		return result;
	}
	result = check_update(step->bodies[0], program, &info);
	if (result == CUDA_SUCCESS) {
		keep_identity(step->bodies[0], program);
		sim_program_unref(step->bodies[0]);
		step->bodies[0] = program;
	} else {
		sim_program_unref(program);
	}
	pthread_mutex_unlock(&hGraphExec->lock);
	return result;
}

// ---- switching nodes off ----------------------------------------------------------------------

static bool can_disable(CUgraphNodeType type)
{
	return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
	       type == CU_GRAPH_NODE_TYPE_MEMSET;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
	struct sim_step *step;

	SIM_ENTER(cuGraphNodeSetEnabled);
	SIM_TRY(sim_node_get(hNode));
	if (!can_disable(hNode->type))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(open_step(hGraphExec, hNode, hNode->type, &step));
	step->enabled = isEnabled;
	pthread_mutex_unlock(&hGraphExec->lock);
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
	struct sim_step *step;

	SIM_ENTER(cuGraphNodeGetEnabled);
	if (!isEnabled)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_node_get(hNode));
	if (!can_disable(hNode->type))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(open_step(hGraphExec, hNode, hNode->type, &step));
	*isEnabled = step->enabled;
	pthread_mutex_unlock(&hGraphExec->lock);
	return CUDA_SUCCESS;
}
