// Implements cuGraphDebugDotPrint, which writes a graph as text for Graphviz.
#include <stdio.h>

#include "copy.h"
#include "entry.h"
#include "event.h"
#include "graph.h"
#include "launch.h"
#include "stream.h"

static const char *get_type_name(CUgraphNodeType type)
{
	switch (type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return "KERNEL";
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return "MEMCPY";
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return "MEMSET";
	case CU_GRAPH_NODE_TYPE_HOST:
		return "HOST";
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return "GRAPH";
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return "EMPTY";
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return "EVENT_WAIT";
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return "EVENT_RECORD";
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return "MEM_ALLOC";
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return "MEM_FREE";
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		return "BATCH_MEM_OP";
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return "CONDITIONAL";
	default:
		return "NODE";
	}
}

static bool has_flag(unsigned flags, unsigned flag)
{
	return flags & (flag | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
}

static void print_kernel(FILE *file, const struct sim_launch_op *launch, unsigned flags)
{
	fprintf(file, "\\n%s", launch->function->info->name);
	if (has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
		fprintf(file, "\\nfunction %p", (const void *)launch->function);
	if (has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
		fprintf(file, "\\n<<<(%u,%u,%u),(%u,%u,%u),%u>>>", launch->grid[0], launch->grid[1], launch->grid[2],
			launch->block[0], launch->block[1], launch->block[2], launch->shared);
	if (has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES))
		fprintf(file, "\\nattributes %#x, cooperative %d", launch->attributes ? launch->attributes->set : 0,
			launch->cooperative);
}

// Prints the parameters of a node that has an operation.
static void print_op(FILE *file, const struct CUgraphNode_st *node, unsigned flags)
{
	const struct sim_copy_op *copy = (const struct sim_copy_op *)node->op;
	const struct sim_set_op *set = (const struct sim_set_op *)node->op;
	const struct sim_host_op *host = (const struct sim_host_op *)node->op;
	const struct sim_memop_op *batch = (const struct sim_memop_op *)node->op;
	const struct sim_event_op *event = (const struct sim_event_op *)node->op;

	if (node->type == CU_GRAPH_NODE_TYPE_KERNEL)
		print_kernel(file, (const struct sim_launch_op *)node->op, flags);
	else if (node->type == CU_GRAPH_NODE_TYPE_MEMCPY &&
		 has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS))
		fprintf(file, "\\n%#jx = %#jx, %zu x %zu x %zu bytes", (uintmax_t)copy->to, (uintmax_t)copy->from,
			copy->copy.WidthInBytes, copy->copy.Height, copy->copy.Depth);
	else if (node->type == CU_GRAPH_NODE_TYPE_MEMSET &&
		 has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
		fprintf(file, "\\n%#llx = %#x, %zu x %zu of %u", set->set.dst, set->set.value, set->set.width,
			set->set.height, set->set.elementSize);
	else if (node->type == CU_GRAPH_NODE_TYPE_HOST && has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS))
		fprintf(file, "\\n%p(%p)", (void *)(uintptr_t)host->function, host->data);
	else if (node->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP &&
		 has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS))
		fprintf(file, "\\n%u operations, flags %#x", batch->count, batch->flags);
	else if ((node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) &&
		 has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS))
		fprintf(file, "\\nevent %p", (const void *)event->event);
}

static void print_label(FILE *file, const struct CUgraphNode_st *node, unsigned flags)
{
	fprintf(file, "%llu\\n%s", node->id, get_type_name(node->type));
	if (has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
		fprintf(file, "\\nnode %p", (const void *)node);
	if (node->op)
		print_op(file, node, flags);
	if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
	    has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS))
		fprintf(file, "\\n%#llx, %zu bytes", node->memory->address, node->memory->params.bytesize);
	if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE && has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS))
		fprintf(file, "\\n%#llx", node->freed);
	if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
	    has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS))
		fprintf(file, "\\ncondition %#llx, type %d, %u bodies",
			(unsigned long long)node->conditional_params.handle, (int)node->conditional, node->body_count);
}

static void print_edge(FILE *file, const struct CUgraphNode_st *from, const struct sim_edge *edge, unsigned flags)
{
	fprintf(file, "node_%llu -> node_%llu", from->id, edge->node->id);
	if (has_flag(flags, CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO))
		fprintf(file, " [taillabel=\"%d\" headlabel=\"%d\"]", edge->data.from_port, edge->data.to_port);
	fprintf(file, ";\n");
}

static void print_graph(FILE *file, const struct CUgraph_st *graph, unsigned flags)
{
	fprintf(file, "subgraph cluster_%llu {\nlabel=\"graph_%llu\";\n", graph->id, graph->id);
	for (const struct CUgraphNode_st *node = graph->first; node; node = node->next) {
		fprintf(file, "node_%llu [shape=box label=\"", node->id);
		print_label(file, node, flags);
		fprintf(file, "\"];\n");
	}
	for (const struct CUgraphNode_st *node = graph->first; node; node = node->next)
		for (size_t i = 0; i < node->dependents.count; i++)
			print_edge(file, node, &node->dependents.items[i], flags);
	fprintf(file, "}\n");
	for (const struct CUgraphNode_st *node = graph->first; node; node = node->next) {
		if (node->child)
			print_graph(file, node->child, flags);
		for (unsigned i = 0; i < node->body_count; i++)
			print_graph(file, node->bodies[i], flags);
	}
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
	SIM_ENTER(cuGraphDebugDotPrint);
	SIM_TRY(sim_graph_get(hGraph));
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	FILE *file = fopen(path, "we");
	if (!file)
		return CUDA_ERROR_OPERATING_SYSTEM;
	fprintf(file, "digraph dot {\n");
	print_graph(file, hGraph, flags);
	fprintf(file, "}\n");
	bool failed = ferror(file);
	return fclose(file) != 0 || failed ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
