// Executable graphs: instantiation, launch, upload.
#include <stdio.h>
#include <stdlib.h>

#include "graph.h"

CUresult sim_graph_exec_get(CUgraphExec handle)
{
	return handle && handle->magic == SIM_GRAPH_EXEC_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void exec_unref(CUgraphExec exec)
{
	if (atomic_fetch_sub(&exec->references, 1) != 1)
		return;
	sim_program_unref(exec->program);
	sim_mark_unref(exec->last);
	sim_user_references_free(exec->objects);
	pthread_mutex_destroy(&exec->lock);
	free(exec);
}

CUresult sim_graph_exec_own(CUgraphExec exec, struct sim_program **ret_program)
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

#define INSTANTIATE_FLAGS                                                                          \
	(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |    \
	 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static bool conditions_used(const struct CUgraph_st *graph)
{
	for (const struct sim_condition *condition = graph->conditions; condition; condition = condition->next)
		if (!condition->used)
			return false;
	return true;
}

// Graphs with memory of their own exist once as executables: the addresses are fixed.
struct claim {
	bool take, taken;
};

static void claim_one(struct sim_graph_memory *memory, void *data)
{
	struct claim *claim = data;

	claim->taken |= memory->instantiated;
	memory->instantiated |= claim->take;
}

static void release_one(struct sim_graph_memory *memory, void *data)
{
	memory->instantiated = false;
}

static CUresult claim_memory(struct sim_program *program)
{
	struct claim claim = {0};

	sim_program_each_memory(program, claim_one, &claim);
	if (claim.taken)
		return CUDA_ERROR_NOT_SUPPORTED;
	claim.take = true;
	sim_program_each_memory(program, claim_one, &claim);
	return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraph graph, unsigned long long flags, CUgraphExec *ret_exec,
			    CUgraphInstantiateResult *ret_reason)
{
	*ret_reason = CUDA_GRAPH_INSTANTIATE_ERROR;
	if (!ret_exec || (flags & ~(unsigned long long)INSTANTIATE_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_graph_get(graph));
	if (graph->owner)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
		*ret_reason = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
		return CUDA_ERROR_NOT_SUPPORTED; // kernels cannot launch graphs here
	}
	if (!conditions_used(graph)) {
		*ret_reason = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
		return CUDA_ERROR_INVALID_VALUE;
	}
	struct CUgraphExec_st *exec = calloc(1, sizeof *exec);
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = sim_program_new(graph, &exec->program);
	if (result == CUDA_SUCCESS)
		result = sim_user_references_copy(graph->objects, &exec->objects);
	if (result == CUDA_SUCCESS) {
		result = claim_memory(exec->program);
		if (result != CUDA_SUCCESS)
			sim_user_references_free(exec->objects);
	}
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
	CUresult result = instantiate(graph, 0, exec, &reason);

	if (error_node)
		*error_node = NULL;
	if (log && size)
		snprintf(log, size, "%s", reason == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE ? "the graph has a cycle" : "");
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
		return CUDA_ERROR_INVALID_VALUE; // needs a stream
	return instantiate(hGraph, flags, phGraphExec, &reason);
}

// ---- launch -------------------------------------------------------------------------------

struct graph_op {
	struct sim_op op;
	CUgraphExec exec;
	struct sim_program *program;
	struct sim_mark **marks; // by step: of the events it records
};

static void let_go(struct graph_op *launch)
{
	if (!launch->exec)
		return;
	for (size_t i = 0; launch->marks && i < launch->program->count; i++) {
		if (launch->marks[i] && !sim_mark_is_done(launch->marks[i]))
			sim_mark_finish(launch->marks[i]); // never reached: the context has failed
		sim_mark_unref(launch->marks[i]);
	}
	free(launch->marks);
	sim_program_unref(launch->program);
	exec_unref(launch->exec);
	launch->exec = NULL;
}

static CUresult run_graph(struct sim_op *op)
{
	struct graph_op *launch = (struct graph_op *)op;
	CUresult result = sim_program_run(launch->program, launch->marks);
	let_go(launch); // before anybody sees the launch done: its memory may be asked for next
	return result;
}

static void finish_graph(struct sim_op *op)
{
	let_go((struct graph_op *)op);
}

static const struct sim_op_class graph_class = {
	.name = "graph", .size = sizeof(struct graph_op), .run = run_graph, .finish = finish_graph};

// What a launch does to the memory that outlives it.
struct settle {
	struct sim_program *program;
	bool free_first, apply;
	CUresult result;
};

static bool frees(const struct sim_program *program, CUdeviceptr address)
{
	for (size_t i = 0; i < program->count; i++) {
		const struct sim_step *step = &program->steps[i];
		if (step->type == CU_GRAPH_NODE_TYPE_MEM_FREE && step->freed == address)
			return true;
		for (unsigned b = 0; b < step->body_count; b++)
			if (frees(step->bodies[b], address))
				return true;
	}
	return false;
}

static void settle_one(struct sim_graph_memory *memory, void *data)
{
	struct settle *settle = data;

	if (settle->result != CUDA_SUCCESS || frees(settle->program, memory->address))
		return;
	settle->result = settle->apply ? sim_graph_memory_take(memory, settle->free_first)
				       : sim_graph_memory_check(memory, settle->free_first);
}

struct search {
	CUdeviceptr address;
	bool found;
};

static void search_one(struct sim_graph_memory *memory, void *data)
{
	struct search *search = data;
	search->found |= memory->address == search->address;
}

static void give_foreign(struct sim_program *program)
{
	for (size_t i = 0; i < program->count; i++) {
		struct search search = {program->steps[i].freed, false};
		if (program->steps[i].type != CU_GRAPH_NODE_TYPE_MEM_FREE)
			continue;
		sim_program_each_memory(program, search_one, &search);
		if (!search.found)
			(void)sim_graph_memory_give(search.address);
	}
}

static CUresult arm_events(struct graph_op *launch)
{
	struct sim_program *program = launch->program;

	for (size_t i = 0; i < program->count; i++) {
		const struct sim_step *step = &program->steps[i];
		if (step->type != CU_GRAPH_NODE_TYPE_EVENT_RECORD || !step->enabled)
			continue;
		if (!launch->marks && !(launch->marks = calloc(program->count, sizeof *launch->marks)))
			return CUDA_ERROR_OUT_OF_MEMORY;
		launch->marks[i] = sim_event_arm(((struct sim_event_op *)step->op)->event);
	}
	return CUDA_SUCCESS;
}

// With exec->lock held.
static CUresult launch_locked(CUgraphExec exec, struct sim_stream *stream)
{
	struct settle settle = {.program = exec->program,
				.free_first = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH};

	sim_program_each_memory(exec->program, settle_one, &settle);
	SIM_TRY(settle.result);
	SIM_TRY(sim_program_upload(exec->program));
	struct graph_op *launch = (struct graph_op *)sim_op_new(&graph_class, stream->context);
	launch->exec = exec;
	atomic_fetch_add(&exec->references, 1);
	launch->program = exec->program;
	atomic_fetch_add(&exec->program->references, 1);
	CUresult result = arm_events(launch);
	if (result != CUDA_SUCCESS) {
		sim_op_free(&launch->op);
		return result;
	}
	settle.apply = true;
	sim_program_each_memory(exec->program, settle_one, &settle);
	give_foreign(exec->program);
	sim_op_wait_for(&launch->op, exec->last);
	launch->op.mark = sim_mark_new();
	sim_mark_unref(exec->last);
	exec->last = sim_mark_ref(launch->op.mark);
	return sim_submit(stream, &launch->op);
}

static CUresult launch_graph(CUgraphExec exec, CUstream handle)
{
	struct sim_stream *stream;

	SIM_TRY(sim_graph_exec_get(exec));
	SIM_TRY(sim_stream_get(handle, &stream));
	if (atomic_load(&stream->capture))
		return sim_capture_graph_launch(stream, exec);
	pthread_mutex_lock(&exec->lock);
	CUresult result = launch_locked(exec, stream);
	pthread_mutex_unlock(&exec->lock);
	return result;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
	SIM_ENTER(cuGraphLaunch);
	return launch_graph(hGraphExec, hStream);
}

CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	SIM_ENTER(cuGraphLaunch_ptsz);
	return launch_graph(hGraphExec, SIM_PTSZ(hStream));
}

static CUresult upload(CUgraphExec exec, CUstream handle)
{
	struct sim_stream *stream;

	SIM_TRY(sim_graph_exec_get(exec));
	SIM_TRY(sim_stream_get(handle, &stream));
	SIM_TRY(sim_capture_forbidden(stream));
	pthread_mutex_lock(&exec->lock);
	CUresult result = sim_program_upload(exec->program);
	pthread_mutex_unlock(&exec->lock);
	return result;
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
	SIM_ENTER(cuGraphUpload);
	return upload(hGraphExec, hStream);
}

CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream)
{
	SIM_ENTER(cuGraphUpload_ptsz);
	return upload(hGraphExec, SIM_PTSZ(hStream));
}

static CUresult instantiate_with(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params, bool per_thread)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	params->hErrNode_out = NULL;
	SIM_TRY(instantiate(graph, params->flags, exec, &params->result_out));
	if (!(params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD))
		return CUDA_SUCCESS;
	CUresult result = upload(*exec, per_thread ? SIM_PTSZ(params->hUploadStream) : params->hUploadStream);
	if (result != CUDA_SUCCESS) {
		params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
		exec_unref(*exec);
	}
	return result;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
				      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	SIM_ENTER(cuGraphInstantiateWithParams);
	return instantiate_with(phGraphExec, hGraph, instantiateParams, false);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
					   CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	SIM_ENTER(cuGraphInstantiateWithParams_ptsz);
	return instantiate_with(phGraphExec, hGraph, instantiateParams, true);
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	SIM_ENTER(cuGraphExecDestroy);
	SIM_TRY(sim_graph_exec_get(hGraphExec));
	hGraphExec->magic = 0;
	sim_program_each_memory(hGraphExec->program, release_one, NULL);
	exec_unref(hGraphExec);
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
