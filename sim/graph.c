// Creates, connects, clones and sorts graphs and nodes.
#include <stdlib.h>

#include "context.h"
#include "graph.h"
#include "memory.h"

static _Atomic unsigned long long next_id = 1;

CUresult sim_edges_add(struct sim_edges *edges, struct CUgraphNode_st *node, const CUgraphEdgeData *data)
{
	if (edges->count == edges->capacity) {
		size_t capacity = edges->capacity ? edges->capacity * 2 : 4;
		struct sim_edge *items = realloc(edges->items, capacity * sizeof *items);
		if (!items)
			return CUDA_ERROR_OUT_OF_MEMORY;
		edges->items = items;
		edges->capacity = capacity;
	}
	edges->items[edges->count++] = (struct sim_edge){node, data ? *data : (CUgraphEdgeData){0}};
	return CUDA_SUCCESS;
}

void sim_edges_remove(struct sim_edges *edges, const struct CUgraphNode_st *node)
{
	for (size_t i = 0; i < edges->count; i++) {
		if (edges->items[i].node != node)
			continue;
		memmove(&edges->items[i], &edges->items[i + 1], (edges->count - i - 1) * sizeof *edges->items);
		edges->count--;
		return;
	}
}

const struct sim_edge *sim_edges_find(const struct sim_edges *edges, const struct CUgraphNode_st *node)
{
	for (size_t i = 0; i < edges->count; i++)
		if (edges->items[i].node == node)
			return &edges->items[i];
	return NULL;
}

void sim_edges_finish(struct sim_edges *edges)
{
	free(edges->items);
	*edges = (struct sim_edges){0};
}

CUresult sim_graph_new(struct CUgraph_st **ret_graph)
{
	struct CUgraph_st *graph = calloc(1, sizeof *graph);

	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	graph->magic = SIM_GRAPH_MAGIC;
	graph->id = atomic_fetch_add(&next_id, 1);
	*ret_graph = graph;
	return CUDA_SUCCESS;
}

struct sim_condition *sim_condition_ref(struct sim_condition *condition)
{
	atomic_fetch_add(&condition->references, 1);
	return condition;
}

void sim_condition_unref(struct sim_condition *condition)
{
	struct sim_context *context;

	if (!condition || atomic_fetch_sub(&condition->references, 1) != 1)
		return;
	// If the context has ended, the memory of the condition's value was freed with it.
	if (sim_context_get(sim_context_handle(condition->context), &context) == CUDA_SUCCESS &&
	    context->id == condition->context_id)
		sim_memory_free(condition->handle);
	free(condition);
}

void sim_graph_free(struct CUgraph_st *graph)
{
	if (!graph)
		return;
	// Empty the lists of edges first, so that sim_node_free() does not search them in other nodes.
	for (struct CUgraphNode_st *node = graph->first, *next; node; node = next) {
		next = node->next;
		node->dependencies.count = node->dependents.count = 0;
		node->graph = NULL;
		sim_node_free(node);
	}
	for (struct sim_condition *condition = graph->conditions, *next; condition; condition = next) {
		next = condition->next;
		sim_condition_unref(condition);
	}
	sim_user_references_free(graph->objects);
	graph->magic = 0;
	free(graph);
}

CUresult sim_graph_get(CUgraph handle)
{
	return handle && handle->magic == SIM_GRAPH_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_node_get(CUgraphNode handle)
{
	return handle && handle->magic == SIM_NODE_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_node_new(struct CUgraph_st *graph, CUgraphNodeType type, struct CUgraphNode_st **ret_node)
{
	struct CUgraphNode_st *node = calloc(1, sizeof *node);

	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->magic = SIM_NODE_MAGIC;
	node->type = type;
	node->graph = graph;
	node->id = atomic_fetch_add(&next_id, 1);
	node->previous = graph->last;
	if (graph->last)
		graph->last->next = node;
	else
		graph->first = node;
	graph->last = node;
	graph->count++;
	*ret_node = node;
	return CUDA_SUCCESS;
}

void sim_node_free(struct CUgraphNode_st *node)
{
	struct CUgraph_st *graph = node->graph;

	for (size_t i = 0; i < node->dependencies.count; i++)
		sim_edges_remove(&node->dependencies.items[i].node->dependents, node);
	for (size_t i = 0; i < node->dependents.count; i++)
		sim_edges_remove(&node->dependents.items[i].node->dependencies, node);
	sim_edges_finish(&node->dependencies);
	sim_edges_finish(&node->dependents);
	if (graph) {
		*(node->previous ? &node->previous->next : &graph->first) = node->next;
		*(node->next ? &node->next->previous : &graph->last) = node->previous;
		graph->count--;
	}
	sim_op_free(node->op);
	sim_graph_free(node->child);
	for (unsigned i = 0; i < node->body_count; i++)
		sim_graph_free(node->bodies[i]);
	free(node->bodies);
	sim_graph_memory_unref(node->memory);
	free(node->pointers);
	node->magic = 0;
	free(node);
}

CUresult sim_graph_connect(struct CUgraphNode_st *from, struct CUgraphNode_st *to, const CUgraphEdgeData *data)
{
	SIM_TRY(sim_edges_add(&to->dependencies, from, data));
	CUresult result = sim_edges_add(&from->dependents, to, data);
	if (result != CUDA_SUCCESS)
		to->dependencies.count--;
	return result;
}

struct sim_condition *sim_graph_find_condition(struct CUgraph_st *graph, CUgraphConditionalHandle handle)
{
	// Search the conditions of the graph. If it is the body of a node, then also search those of the graph that
	// contains the node.
	for (; graph; graph = graph->owner ? graph->owner->graph : NULL)
		for (struct sim_condition *condition = graph->conditions; condition; condition = condition->next)
			if (condition->handle == handle)
				return condition;
	return NULL;
}

bool sim_graph_contains(const struct CUgraph_st *graph, CUgraphNodeType type)
{
	for (const struct CUgraphNode_st *node = graph->first; node; node = node->next) {
		if (node->type == type || (node->child && sim_graph_contains(node->child, type)))
			return true;
		for (unsigned i = 0; i < node->body_count; i++)
			if (sim_graph_contains(node->bodies[i], type))
				return true;
	}
	return false;
}

static CUresult clone_node(const struct CUgraphNode_st *node, struct CUgraph_st *graph,
			   struct CUgraphNode_st **ret_node)
{
	struct CUgraphNode_st *copy;

	SIM_TRY(sim_node_new(graph, node->type, &copy));
	copy->origin = node;
	copy->freed = node->freed;
	copy->kernel = node->kernel;
	copy->memory = node->memory ? sim_graph_memory_ref(node->memory) : NULL;
	if (node->op && !(copy->op = sim_op_clone(node->op)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (node->child) {
		SIM_TRY(sim_graph_clone(node->child, &copy->child));
		copy->child->owner = copy;
	}
	*ret_node = copy;
	return CUDA_SUCCESS;
}

// Clones the nodes and edges of a graph. `copies` must have room for all of its nodes.
static CUresult clone_nodes(const struct CUgraph_st *graph, struct CUgraph_st *clone, struct CUgraphNode_st **copies)
{
	size_t i = 0;

	for (struct CUgraphNode_st *node = graph->first; node; node = node->next) {
		node->mark = i;
		SIM_TRY(clone_node(node, clone, &copies[i++]));
	}
	for (const struct CUgraphNode_st *node = graph->first; node; node = node->next)
		for (size_t e = 0; e < node->dependencies.count; e++)
			SIM_TRY(sim_graph_connect(copies[node->dependencies.items[e].node->mark], copies[node->mark],
						  &node->dependencies.items[e].data));
	return sim_user_references_copy(graph->objects, &clone->objects);
}

CUresult sim_graph_clone(const struct CUgraph_st *graph, struct CUgraph_st **ret_clone)
{
	struct CUgraph_st *clone;

	SIM_TRY(sim_graph_new(&clone));
	clone->origin = graph;
	struct CUgraphNode_st **copies = calloc(graph->count + 1, sizeof *copies);
	CUresult result = copies ? clone_nodes(graph, clone, copies) : CUDA_ERROR_OUT_OF_MEMORY;
	free(copies);
	if (result != CUDA_SUCCESS) {
		sim_graph_free(clone);
		return result;
	}
	*ret_clone = clone;
	return CUDA_SUCCESS;
}

CUresult sim_graph_sort(const struct CUgraph_st *graph, struct CUgraphNode_st ***ret_nodes)
{
	struct CUgraphNode_st **nodes = calloc(graph->count + 1, sizeof *nodes);
	size_t ready = 0;

	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (struct CUgraphNode_st *node = graph->first; node; node = node->next) {
		// `mark` counts the dependencies that are not in the sorted list yet.
		node->mark = node->dependencies.count;
		if (node->mark == 0)
			nodes[ready++] = node;
	}
	for (size_t done = 0; done < ready; done++) {
		const struct sim_edges *dependents = &nodes[done]->dependents;
		for (size_t i = 0; i < dependents->count; i++)
			if (--dependents->items[i].node->mark == 0)
				nodes[ready++] = dependents->items[i].node;
	}
	if (ready != graph->count) {
		free(nodes);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_nodes = nodes;
	return CUDA_SUCCESS;
}
