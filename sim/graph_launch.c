// Launches executable graphs.
#include <stdlib.h>

#include "capture.h"
#include "entry.h"
#include "event.h"
#include "graph.h"
#include "mark.h"
#include "op_time.h"
#include "process.h"

struct graph_op {
	struct sim_op op;
	CUgraphExec exec;
	struct sim_program *program;
	// For each step that records an event, the mark (mark.h) of the record. NULL: the program records no events.
	struct sim_mark **marks;
};

static void release_launch(struct graph_op *launch)
{
	if (!launch->exec)
		return;
	for (size_t i = 0; launch->marks && i < launch->program->count; i++) {
		if (launch->marks[i] && !sim_mark_is_done(launch->marks[i]))
			// A failure ended the launch before this step. Finish the step's mark (mark.h), so that no
			// thread waits for it.
			sim_mark_finish(launch->marks[i]);
		sim_mark_unref(launch->marks[i]);
	}
	free(launch->marks);
	sim_program_unref(launch->program);
	sim_graph_exec_unref(launch->exec);
	launch->exec = NULL;
}

static CUresult run_graph(struct sim_op *op)
{
	struct graph_op *launch = (struct graph_op *)op;
	struct sim_time_cursor cursor = {0};
	if (op->time)
		cursor = (struct sim_time_cursor){
			.stream = op->stream,
			.next = op->time->first,
			.end_ns = op->time->ready_ns ? op->time->ready_ns : op->time->submitted_ns,
			.gathers = sim_program_pieces(launch->program, NULL, 0) > SIM_PIECES_MOST,
		};
	CUresult result = sim_program_run(launch->program, launch->marks, op->time ? &cursor : NULL);
	if (op->time)
		sim_time_end_graph(op, &cursor);
	// Release what the launch uses before other threads can see that it has ended. They may then expect that its
	// memory is free.
	release_launch(launch);
	return result;
}

static void finish_graph(struct sim_op *op)
{
	release_launch((struct graph_op *)op);
}

// Lists one piece of work (region_time.h) for each node. A graph with too many nodes has a single piece for all of
// them.
static unsigned list_pieces(const struct sim_op *op, struct region_piece *ret_pieces, unsigned capacity)
{
	unsigned count = sim_program_pieces(((const struct graph_op *)op)->program, ret_pieces, capacity);

	if (count == 0)
		return sim_time_host_piece(op, ret_pieces, capacity);
	if (count <= SIM_PIECES_MOST)
		return count;
	if (capacity)
		ret_pieces[0] = (struct region_piece){.engine = TIME_SMS, .open = true, .sms = sim_process.sms};
	return 1;
}

static const struct sim_op_class graph_class = {.name = "graph",
						.size = sizeof(struct graph_op),
						.run = run_graph,
						.finish = finish_graph,
						.pieces = list_pieces,
						.runs_pieces = true};

// The state of mark_one(), which notes memory that a launch allocates and does not free (live memory).
struct mark_live {
	struct sim_program *program;
	bool free_first;
	bool apply; // if this is false, only check whether the change is possible
	CUresult result;
};

static bool frees_memory(const struct sim_program *program, CUdeviceptr address)
{
	for (size_t i = 0; i < program->count; i++) {
		const struct sim_step *step = &program->steps[i];
		if (step->type == CU_GRAPH_NODE_TYPE_MEM_FREE && step->freed == address)
			return true;
		for (unsigned b = 0; b < step->body_count; b++)
			if (frees_memory(step->bodies[b], address))
				return true;
	}
	return false;
}

static void mark_one(struct sim_graph_memory *memory, void *data)
{
	struct mark_live *live = data;

	if (live->result != CUDA_SUCCESS || frees_memory(live->program, memory->address))
		return;
	live->result = live->apply ? sim_graph_memory_mark_live(memory, live->free_first)
				   : sim_graph_memory_check_live(memory, live->free_first);
}

struct search {
	CUdeviceptr address;
	bool found;
};

static void match_address(struct sim_graph_memory *memory, void *data)
{
	struct search *search = data;
	search->found |= memory->address == search->address;
}

// Runs those free nodes of the program whose memory another graph has allocated.
static void free_foreign(struct sim_program *program)
{
	for (size_t i = 0; i < program->count; i++) {
		struct search search = {program->steps[i].freed, false};
		if (program->steps[i].type != CU_GRAPH_NODE_TYPE_MEM_FREE)
			continue;
		sim_program_each_memory(program, match_address, &search);
		if (!search.found)
			(void)sim_graph_memory_free(search.address);
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

// Submits a launch of the graph to a stream. Call it with exec->lock held.
static CUresult launch_locked(CUgraphExec exec, struct sim_stream *stream)
{
	struct mark_live live = {.program = exec->program,
				 .free_first = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH};

	sim_program_each_memory(exec->program, mark_one, &live);
	SIM_TRY(live.result);
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
	live.apply = true;
	sim_program_each_memory(exec->program, mark_one, &live);
	free_foreign(exec->program);
	if (exec->last_stream != stream->id) // launches in the same stream are in order anyway
		sim_op_wait_for(&launch->op, exec->last);
	exec->last_stream = stream->id;
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
	SIM_TRY(sim_capture_check_stream(stream));
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
