// Converts a graph to a program: the nodes of an executable graph, each after its dependencies.
#include <stdlib.h>

#include "event.h"
#include "graph.h"
#include "mark.h"
#include "memory.h"
#include "op_time.h"
#include "process.h"

static void finish_step(struct sim_step *step)
{
	sim_op_free(step->op);
	sim_graph_memory_unref(step->memory);
	sim_condition_unref(step->condition);
	for (unsigned i = 0; i < step->body_count; i++)
		sim_program_unref(step->bodies[i]);
	free(step->bodies);
}

void sim_program_unref(struct sim_program *program)
{
	if (!program || atomic_fetch_sub(&program->references, 1) != 1)
		return;
	for (size_t i = 0; i < program->count; i++)
		finish_step(&program->steps[i]);
	free(program->steps);
	for (unsigned i = 0; i < program->condition_count; i++)
		sim_condition_unref(program->conditions[i]);
	free(program->conditions);
	sim_user_references_free(program->objects);
	free(program);
}

static CUresult add_bodies(struct sim_step *step, struct CUgraph_st *const *graphs, unsigned count)
{
	step->bodies = calloc(count, sizeof *step->bodies);
	if (!step->bodies)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < count; i++) {
		SIM_TRY(sim_program_new(graphs[i], &step->bodies[i]));
		step->body_count++;
	}
	return CUDA_SUCCESS;
}

static CUresult make_step(struct sim_step *step, const struct CUgraphNode_st *node)
{
	step->source = node;
	step->type = node->type;
	step->enabled = true;
	step->freed = node->freed;
	for (size_t i = 0; i < node->dependencies.count; i++)
		step->dependencies += (node->dependencies.items[i].node->mark + 1) * 0x9e3779b97f4a7c15u;
	step->memory = node->memory ? sim_graph_memory_ref(node->memory) : NULL;
	if (node->op && !(step->op = sim_op_clone(node->op)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (node->child)
		return add_bodies(step, &node->child, 1);
	if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
		step->conditional = node->conditional;
		step->condition = sim_condition_ref(node->condition);
		return add_bodies(step, node->bodies, node->body_count);
	}
	return CUDA_SUCCESS;
}

static CUresult copy_conditions(struct sim_program *program, const struct CUgraph_st *graph)
{
	unsigned count = 0;

	for (const struct sim_condition *condition = graph->conditions; condition; condition = condition->next)
		count++;
	program->conditions = calloc(count + 1, sizeof(struct sim_condition *));
	if (!program->conditions)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (struct sim_condition *condition = graph->conditions; condition; condition = condition->next)
		program->conditions[program->condition_count++] = sim_condition_ref(condition);
	return CUDA_SUCCESS;
}

static CUresult add_steps(struct sim_program *program, struct CUgraphNode_st *const *nodes, size_t count)
{
	program->steps = calloc(count + 1, sizeof *program->steps);
	if (!program->steps)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < count; i++) {
		program->count++;
		nodes[i]->mark = i;
		SIM_TRY(make_step(&program->steps[i], nodes[i]));
	}
	return CUDA_SUCCESS;
}

static CUresult fill_program(struct sim_program *program, const struct CUgraph_st *graph)
{
	struct CUgraphNode_st **nodes;

	SIM_TRY(sim_graph_sort(graph, &nodes));
	CUresult result = add_steps(program, nodes, graph->count);
	free(nodes);
	SIM_TRY(result);
	SIM_TRY(copy_conditions(program, graph));
	return sim_user_references_copy(graph->objects, &program->objects);
}

CUresult sim_program_new(const struct CUgraph_st *graph, struct sim_program **ret_program)
{
	struct sim_program *program = calloc(1, sizeof *program);

	if (!program)
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_init(&program->references, 1);
	CUresult result = fill_program(program, graph);
	if (result != CUDA_SUCCESS) {
		sim_program_unref(program);
		return result;
	}
	*ret_program = program;
	return CUDA_SUCCESS;
}

static CUresult copy_step(struct sim_step *copy, const struct sim_step *step)
{
	*copy = *step;
	copy->op = NULL;
	copy->bodies = NULL;
	copy->body_count = 0;
	if (copy->memory)
		sim_graph_memory_ref(copy->memory);
	if (copy->condition)
		sim_condition_ref(copy->condition);
	if (step->op && !(copy->op = sim_op_clone(step->op)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!step->body_count)
		return CUDA_SUCCESS;
	copy->bodies = calloc(step->body_count, sizeof *copy->bodies);
	if (!copy->bodies)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned i = 0; i < step->body_count; i++) {
		SIM_TRY(sim_program_copy(step->bodies[i], &copy->bodies[i]));
		copy->body_count++;
	}
	return CUDA_SUCCESS;
}

static CUresult fill_copy(struct sim_program *copy, const struct sim_program *program)
{
	copy->steps = calloc(program->count + 1, sizeof *copy->steps);
	copy->conditions = calloc(program->condition_count + 1, sizeof(struct sim_condition *));
	if (!copy->steps || !copy->conditions)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < program->count; i++) {
		copy->count++;
		SIM_TRY(copy_step(&copy->steps[i], &program->steps[i]));
	}
	for (unsigned i = 0; i < program->condition_count; i++)
		copy->conditions[copy->condition_count++] = sim_condition_ref(program->conditions[i]);
	return sim_user_references_copy(program->objects, &copy->objects);
}

CUresult sim_program_copy(const struct sim_program *program, struct sim_program **ret_copy)
{
	struct sim_program *copy = calloc(1, sizeof *copy);

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_init(&copy->references, 1);
	CUresult result = fill_copy(copy, program);
	if (result != CUDA_SUCCESS) {
		sim_program_unref(copy);
		return result;
	}
	*ret_copy = copy;
	return CUDA_SUCCESS;
}

struct sim_step *sim_program_find_step(struct sim_program *program, const struct CUgraphNode_st *source)
{
	for (size_t i = 0; i < program->count; i++) {
		struct sim_step *step = &program->steps[i];
		if (step->source == source)
			return step;
		for (unsigned b = 0; b < step->body_count; b++) {
			struct sim_step *nested = sim_program_find_step(step->bodies[b], source);
			if (nested)
				return nested;
		}
	}
	return NULL;
}

void sim_program_each_memory(struct sim_program *program, void (*each)(struct sim_graph_memory *, void *), void *data)
{
	for (size_t i = 0; i < program->count; i++) {
		struct sim_step *step = &program->steps[i];
		if (step->memory)
			each(step->memory, data);
		for (unsigned b = 0; b < step->body_count; b++)
			sim_program_each_memory(step->bodies[b], each, data);
	}
}

CUresult sim_program_upload(struct sim_program *program)
{
	for (size_t i = 0; i < program->count; i++) {
		struct sim_step *step = &program->steps[i];
		if (step->memory)
			SIM_TRY(sim_graph_memory_upload(step->memory));
		for (unsigned b = 0; b < step->body_count; b++)
			SIM_TRY(sim_program_upload(step->bodies[b]));
	}
	return CUDA_SUCCESS;
}

static CUresult read_condition(const struct sim_condition *condition, unsigned *ret_value)
{
	const unsigned *word =
		sim_memory_translate(condition->context->device, condition->handle, sizeof *word, SIM_READ);
	if (!word)
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	*ret_value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	return CUDA_SUCCESS;
}

static CUresult run_bodies(const struct sim_step *step, struct sim_time_cursor *cursor)
{
	unsigned value;

	SIM_TRY(read_condition(step->condition, &value));
	switch (step->conditional) {
	case CU_GRAPH_COND_TYPE_IF:
		if (value)
			return sim_program_run(step->bodies[0], NULL, cursor);
		return step->body_count > 1 ? sim_program_run(step->bodies[1], NULL, cursor) : CUDA_SUCCESS;
	case CU_GRAPH_COND_TYPE_WHILE:
		while (value) {
			SIM_TRY(sim_program_run(step->bodies[0], NULL, cursor));
			if (atomic_load(&step->condition->context->cancel))
				return CUDA_ERROR_CONTEXT_IS_DESTROYED;
			SIM_TRY(read_condition(step->condition, &value));
		}
		return CUDA_SUCCESS;
	default:
		return value < step->body_count ? sim_program_run(step->bodies[value], NULL, cursor) : CUDA_SUCCESS;
	}
}

static CUresult run_conditional(const struct sim_step *step, struct sim_time_cursor *cursor)
{
	struct sim_context *context = step->condition->context;

	if (!cursor)
		return run_bodies(step, NULL);
	struct sim_time_cursor bodies = sim_time_begin_bodies(context, cursor);
	CUresult result = run_bodies(step, &bodies);
	sim_time_end_bodies(context, cursor, &bodies);
	return result;
}

// Records an event. `mark` was created when the launch was submitted. In a nested graph, which may run several times,
// `mark` is NULL, and each record creates a mark.
static CUresult run_record(const struct sim_event_op *op, struct sim_mark *mark, const struct sim_time_cursor *cursor)
{
	// Run a copy, because an update of the executable graph may copy the step at the same time.
	struct sim_event_op *run = (struct sim_event_op *)sim_op_clone(&op->op);

	if (!run)
		return CUDA_ERROR_OUT_OF_MEMORY;
	run->mark = sim_mark_ref(mark);
	struct sim_op_time time = {.ended_ns = cursor ? cursor->end_ns : 0};
	run->op.time = cursor ? &time : NULL;
	CUresult result = sim_op_execute(&run->op, NULL);
	run->op.time = NULL;
	sim_op_free(&run->op);
	return result;
}

static CUresult run_step(const struct sim_step *step, struct sim_mark *mark, struct sim_time_cursor *cursor)
{
	switch (step->type) {
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return sim_program_run(step->bodies[0], NULL, cursor);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return run_conditional(step, cursor);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC: // launch_locked() has allocated or freed the memory already
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return run_record((const struct sim_event_op *)step->op, mark, cursor);
	default:
		return sim_op_execute(step->op, cursor);
	}
}

CUresult sim_program_run(struct sim_program *program, struct sim_mark *const *marks, struct sim_time_cursor *cursor)
{
	for (unsigned i = 0; i < program->condition_count; i++) {
		const struct sim_condition *condition = program->conditions[i];
		unsigned *word =
			sim_memory_translate(condition->context->device, condition->handle, sizeof *word, SIM_WRITE);
		if (condition->reset && word)
			__atomic_store_n(word, condition->initial, __ATOMIC_RELEASE);
	}
	for (size_t i = 0; i < program->count; i++)
		if (program->steps[i].enabled)
			SIM_TRY(run_step(&program->steps[i], marks ? marks[i] : NULL, cursor));
	return CUDA_SUCCESS;
}

// Lists the pieces of work (region_time.h) of a step. Writes at most `capacity` of them. Returns how many there are in
// all. 0: the step takes no time.
static unsigned list_step_pieces(const struct sim_step *step, struct region_piece *ret_pieces, unsigned capacity)
{
	switch (step->type) {
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return sim_program_pieces(step->bodies[0], ret_pieces, capacity);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL: // its duration is known only when it has run
		if (capacity)
			ret_pieces[0] = (struct region_piece){.engine = TIME_SMS, .open = true, .sms = sim_process.sms};
		return 1;
	default:
		if (!step->op || !step->op->class->pieces)
			return 0;
		return step->op->class->pieces(step->op, ret_pieces, capacity);
	}
}

unsigned sim_program_pieces(const struct sim_program *program, struct region_piece *ret_pieces, unsigned capacity)
{
	unsigned count = 0;

	for (size_t i = 0; i < program->count; i++)
		if (program->steps[i].enabled)
			count +=
				list_step_pieces(&program->steps[i], ret_pieces + (count < capacity ? count : capacity),
						 count < capacity ? capacity - count : 0);
	return count;
}
