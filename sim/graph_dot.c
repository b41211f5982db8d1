// Graphs as text for Graphviz.
#include <stdio.h>

#include "graph.h"
#include "launch.h"

static const char *type_name(CUgraphNodeType type)
{
	switch (type) {
	case CU_GRAPH_NODE_TYPE_KERNEL: return "KERNEL";
	case CU_GRAPH_NODE_TYPE_MEMCPY: return "MEMCPY";
	case CU_GRAPH_NODE_TYPE_MEMSET: return "MEMSET";
	case CU_GRAPH_NODE_TYPE_HOST: return "HOST";
	case CU_GRAPH_NODE_TYPE_GRAPH: return "GRAPH";
	case CU_GRAPH_NODE_TYPE_EMPTY: return "EMPTY";
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return "EVENT_WAIT";
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD: return "EVENT_RECORD";
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return "MEM_ALLOC";
	case CU_GRAPH_NODE_TYPE_MEM_FREE: return "MEM_FREE";
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return "BATCH_MEM_OP";
	case CU_GRAPH_NODE_TYPE_CONDITIONAL: return "CONDITIONAL";
	default: return "NODE";
	}
}

static void print_label(FILE *file, const struct CUgraphNode_st *node, unsigned flags)
{
	bool all = flags & CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE;

	fprintf(file, "%llu\\n%s", node->id, type_name(node->type));
	if (flags & CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES || all)
		fprintf(file, "\\nnode %p", (const void *)node);
	if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		const struct sim_launch_op *launch = (const struct sim_launch_op *)node->op;
		fprintf(file, "\\n%s", launch->function->info->name);
		if (flags & CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS || all)
			fprintf(file, "\\n<<<(%u,%u,%u),(%u,%u,%u),%u>>>", launch->grid[0], launch->grid[1],
				launch->grid[2], launch->block[0], launch->block[1], launch->block[2], launch->shared);
	}
	if (node->type == CU_GRAPH_NODE_TYPE_MEMSET && (flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS || all)) {
		const struct sim_set_op *set = (const struct sim_set_op *)node->op;
		fprintf(file, "\\n%#llx = %#x, %zu x %zu of %u", set->set.dst, set->set.value, set->set.width,
			set->set.height, set->set.elementSize);
	}
	if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
	    (flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS || all))
		fprintf(file, "\\n%#llx, %zu bytes", node->memory->address, node->memory->params.bytesize);
	if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE && (flags & CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS || all))
		fprintf(file, "\\n%#llx", node->freed);
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
			fprintf(file, "node_%llu -> node_%llu;\n", node->id, node->dependents.items[i].node->id);
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
