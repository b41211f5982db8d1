// Instantiates, uploads and destroys executable graphs.
#include <stdio.h>
#include <stdlib.h>

#include "capture.h"
#include "entry.h"
#include "graph.h"
#include "mark.h"
#include "process.h"
#include "stream.h"

CUresult sim_graph_exec_get(CUgraphExec handle)
{
	return handle && handle->magic == SIM_GRAPH_EXEC_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void sim_graph_exec_unref(CUgraphExec exec)
{
	if (atomic_fetch_sub(&exec->references, 1) != 1)
		return;
	sim_program_unref(exec->program);
	sim_mark_unref(exec->last);
	pthread_mutex_destroy(&exec->lock);
	free(exec);
}

CUresult sim_graph_exec_unshare(CUgraphExec exec, struct sim_program **ret_program)
{
	if (atomic_load(&exec->program->references) > 1) {
		struct sim_program *copy;
		SIM_TRY(sim_program_copy(exec->program, &copy));
		sim_program_unref(exec->program);
		exec->program = copy;
	}
	*ret_program = exec->program;
	return CUDA_SUCCESS;
}

#define INSTANTIATE_FLAGS                                                                       \
	(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | \
	 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static bool are_conditions_used(const struct CUgraph_st *graph)
{
	for (const struct sim_condition *condition = graph->conditions; condition; condition = condition->next)
		if (!condition->used)
			return false;
	return true;
}

// The state of claim_memory(), which claims a graph's allocation nodes for one executable graph. Executable graphs with
// the same allocation nodes would use the same addresses, so only one may exist at a time.
struct claim {
	// `apply`: claim the memory; otherwise only check it. `is_claimed` (result): another executable graph has the
	// memory.
	bool apply, is_claimed;
};

static void claim_one(struct sim_graph_memory *memory, void *data)
{
	struct claim *claim = data;

	claim->is_claimed |= memory->instantiated;
	memory->instantiated |= claim->apply;
}

static void release_one(struct sim_graph_memory *memory, void *data)
{
	memory->instantiated = false;
}

static CUresult claim_memory(struct sim_program *program)
{
	struct claim claim = {0};

	sim_program_each_memory(program, claim_one, &claim);
	if (claim.is_claimed)
		return CUDA_ERROR_NOT_SUPPORTED;
	claim.apply = true;
	sim_program_each_memory(program, claim_one, &claim);
	return CUDA_SUCCESS;
}

static CUresult instantiate_graph(CUgraph graph, unsigned long long flags, CUgraphExec *ret_exec,
				  CUgraphInstantiateResult *ret_reason)
{
	struct sim_context *current;

	*ret_reason = CUDA_GRAPH_INSTANTIATE_ERROR;
	if (sim_context_current_any(&current) == CUDA_SUCCESS)
		SIM_TRY(sim_failure()); // after a failure, graphs can still be built but not instantiated
	SIM_TRY(sim_capture_check_unsafe());
	if (!ret_exec || (flags & ~(unsigned long long)INSTANTIATE_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_graph_get(graph));
	if (graph->owner)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
		*ret_reason = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
		return CUDA_ERROR_NOT_SUPPORTED; // simulated kernels cannot launch graphs
	}
	if (!are_conditions_used(graph)) {
		*ret_reason = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
		return CUDA_ERROR_INVALID_VALUE;
	}
	struct CUgraphExec_st *exec = calloc(1, sizeof *exec);
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = sim_program_new(graph, &exec->program);
	if (result == CUDA_SUCCESS)
		result = claim_memory(exec->program);
	if (result != CUDA_SUCCESS) {
		if (result == CUDA_ERROR_INVALID_VALUE)
			*ret_reason = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
		sim_program_unref(exec->program);
		free(exec);
		return result;
	}
	exec->magic = SIM_GRAPH_EXEC_MAGIC;
	atomic_init(&exec->references, 1);
	pthread_mutex_init(&exec->lock, NULL);
	exec->flags = flags;
	exec->source = graph;
	*ret_reason = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	*ret_exec = exec;
	return CUDA_SUCCESS;
}

static CUresult instantiate_logged(CUgraphExec *exec, CUgraph graph, CUgraphNode *error_node, char *log, size_t size)
{
	CUgraphInstantiateResult reason;
	CUresult result = instantiate_graph(graph, 0, exec, &reason);

	if (error_node)
		*error_node = NULL;
	if (log && size)
		snprintf(log, size, "%s",
			 reason == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE ? "the graph has a cycle" : "");
	return result;
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
			    size_t bufferSize)
{
	SIM_ENTER(cuGraphInstantiate);
	return instantiate_logged(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
			       size_t bufferSize)
{
	SIM_ENTER(cuGraphInstantiate_v2);
	return instantiate_logged(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
	CUgraphInstantiateResult reason;

	SIM_ENTER(cuGraphInstantiateWithFlags);
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
		return CUDA_ERROR_INVALID_VALUE; // uploading needs a stream
	return instantiate_graph(hGraph, flags, phGraphExec, &reason);
}

static CUresult upload_graph(CUgraphExec exec, CUstream handle)
{
	struct sim_stream *stream;

	SIM_TRY(sim_graph_exec_get(exec));
	SIM_TRY(sim_stream_get(handle, &stream));
	SIM_TRY(sim_capture_check_stream(stream));
	pthread_mutex_lock(&exec->lock);
	CUresult result = sim_program_upload(exec->program);
	pthread_mutex_unlock(&exec->lock);
	return result;
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
	SIM_ENTER(cuGraphUpload);
	return upload_graph(hGraphExec, hStream);
}

CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	SIM_ENTER(cuGraphUpload_ptsz);
	return upload_graph(hGraphExec, SIM_PTSZ(hStream));
}

static CUresult instantiate_with_params(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params,
					bool per_thread)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	params->hErrNode_out = NULL;
	SIM_TRY(instantiate_graph(graph, params->flags, exec, &params->result_out));
	if (!(params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
		return CUDA_SUCCESS;
	CUresult result = upload_graph(*exec, per_thread ? SIM_PTSZ(params->hUploadStream) : params->hUploadStream);
	if (result != CUDA_SUCCESS) {
		params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
		sim_graph_exec_unref(*exec);
	}
	return result;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	SIM_ENTER(cuGraphInstantiateWithParams);
	return instantiate_with_params(phGraphExec, hGraph, instantiateParams, false);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
					   CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	SIM_ENTER(cuGraphInstantiateWithParams_ptsz);
	return instantiate_with_params(phGraphExec, hGraph, instantiateParams, true);
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	SIM_ENTER(cuGraphExecDestroy);
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(sim_graph_exec_get(hGraphExec));
	hGraphExec->magic = 0;
	sim_program_each_memory(hGraphExec->program, release_one, NULL);
	sim_graph_exec_unref(hGraphExec);
	return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
	SIM_ENTER(cuGraphExecGetFlags);
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_graph_exec_get(hGraphExec));
	*flags = hGraphExec->flags;
	return CUDA_SUCCESS;
}
