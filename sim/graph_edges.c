// Implements the driver's functions for whole graphs and for their edges.
#include <stdlib.h>

#include "entry.h"
#include "graph.h"

// Returns whether the graph has memory nodes. Such a graph cannot be copied, nor lose a node or an edge.
static bool has_memory(const struct CUgraph_st *graph)
{
	return sim_graph_contains(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC) ||
	       sim_graph_contains(graph, CU_GRAPH_NODE_TYPE_MEM_FREE);
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	SIM_ENTER(cuGraphCreate);
	if (!phGraph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_graph_new(phGraph);
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
	SIM_ENTER(cuGraphDestroy);
	SIM_TRY(sim_graph_get(hGraph));
	if (hGraph->owner)
		return CUDA_ERROR_INVALID_VALUE;
	sim_graph_free(hGraph);
	return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	SIM_ENTER(cuGraphClone);
	if (!phGraphClone)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_graph_get(originalGraph));
	bool body = originalGraph->owner && originalGraph->owner->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
	if (body || sim_graph_contains(originalGraph, CU_GRAPH_NODE_TYPE_CONDITIONAL) || has_memory(originalGraph))
		return CUDA_ERROR_NOT_SUPPORTED;
	return sim_graph_clone(originalGraph, phGraphClone);
}

static CUgraphNode find_clone(const struct CUgraph_st *graph, const struct CUgraphNode_st *original)
{
	for (struct CUgraphNode_st *node = graph->first; node; node = node->next) {
		if (node->origin == original)
			return node;
		CUgraphNode nested = node->child ? find_clone(node->child, original) : NULL;
		if (nested)
			return nested;
	}
	return NULL;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)
{
	SIM_ENTER(cuGraphNodeFindInClone);
	if (!phNode)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_node_get(hOriginalNode));
	SIM_TRY(sim_graph_get(hClonedGraph));
	CUgraphNode found = find_clone(hClonedGraph, hOriginalNode);
	if (!found)
		return CUDA_ERROR_INVALID_VALUE;
	*phNode = found;
	return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
	SIM_ENTER(cuGraphDestroyNode);
	SIM_TRY(sim_node_get(hNode));
	if (has_memory(hNode->graph))
		return CUDA_ERROR_NOT_SUPPORTED;
	sim_node_free(hNode);
	return CUDA_SUCCESS;
}

// Returns a list of nodes as the driver does. If `nodes` is NULL, sets *count to the number of nodes. If the array is
// longer than the list, also sets the remaining elements to NULL.
static CUresult fill_list(CUgraphNode *nodes, size_t *count, CUgraphNode *found, size_t found_count)
{
	if (nodes)
		for (size_t i = 0; i < *count; i++)
			nodes[i] = i < found_count ? found[i] : NULL;
	if (!nodes || *count > found_count)
		*count = found_count;
	return CUDA_SUCCESS;
}

enum node_choice { ALL_NODES, ROOT_NODES };

static CUresult list_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count, enum node_choice choice)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_graph_get(graph));
	CUgraphNode *found = calloc(graph->count + 1, sizeof *found);
	size_t found_count = 0;
	if (!found)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (struct CUgraphNode_st *node = graph->first; node; node = node->next)
		if (choice == ALL_NODES || !node->dependencies.count)
			found[found_count++] = node;
	CUresult result = fill_list(nodes, count, found, found_count);
	free(found);
	return result;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	SIM_ENTER(cuGraphGetNodes);
	return list_nodes(hGraph, nodes, numNodes, ALL_NODES);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	SIM_ENTER(cuGraphGetRootNodes);
	return list_nodes(hGraph, rootNodes, numRootNodes, ROOT_NODES);
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	SIM_ENTER(cuGraphNodeGetType);
	if (!type)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_node_get(hNode));
	*type = hNode->type;
	return CUDA_SUCCESS;
}

static bool is_default(const CUgraphEdgeData *data)
{
	return !data->from_port && !data->to_port && !data->type;
}

// Lists edges. CUDA_ERROR_LOSSY_QUERY: an edge has data, and `data` is NULL.
static CUresult list_edges(const struct sim_edges *edges, CUgraphNode *nodes, CUgraphEdgeData *data, size_t *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	if (nodes && !data)
		for (size_t i = 0; i < edges->count && i < *count; i++)
			if (!is_default(&edges->items[i].data))
				return CUDA_ERROR_LOSSY_QUERY;
	for (size_t i = 0; nodes && i < *count; i++) {
		nodes[i] = i < edges->count ? edges->items[i].node : NULL;
		if (data)
			data[i] = i < edges->count ? edges->items[i].data : (CUgraphEdgeData){0};
	}
	if (!nodes || *count > edges->count)
		*count = edges->count;
	return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies)
{
	SIM_ENTER(cuGraphNodeGetDependencies);
	SIM_TRY(sim_node_get(hNode));
	return list_edges(&hNode->dependencies, dependencies, NULL, numDependencies);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData,
				       size_t *numDependencies)
{
	SIM_ENTER(cuGraphNodeGetDependencies_v2);
	SIM_TRY(sim_node_get(hNode));
	return list_edges(&hNode->dependencies, dependencies, edgeData, numDependencies);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes)
{
	SIM_ENTER(cuGraphNodeGetDependentNodes);
	SIM_TRY(sim_node_get(hNode));
	return list_edges(&hNode->dependents, dependentNodes, NULL, numDependentNodes);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData,
					 size_t *numDependentNodes)
{
	SIM_ENTER(cuGraphNodeGetDependentNodes_v2);
	SIM_TRY(sim_node_get(hNode));
	return list_edges(&hNode->dependents, dependentNodes, edgeData, numDependentNodes);
}

static CUresult list_graph_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
				 size_t *count)
{
	size_t at = 0;

	if (!count || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_graph_get(graph));
	for (const struct CUgraphNode_st *node = graph->first; node; node = node->next) {
		for (size_t i = 0; i < node->dependents.count; i++, at++) {
			const struct sim_edge *edge = &node->dependents.items[i];
			if (!from || at >= *count)
				continue;
			if (!data && !is_default(&edge->data))
				return CUDA_ERROR_LOSSY_QUERY;
			from[at] = (CUgraphNode)node;
			to[at] = edge->node;
			if (data)
				data[at] = edge->data;
		}
	}
	for (size_t i = at; from && i < *count; i++)
		from[i] = to[i] = NULL;
	if (!from || *count > at)
		*count = at;
	return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
	SIM_ENTER(cuGraphGetEdges);
	return list_graph_edges(hGraph, from, to, NULL, numEdges);
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData,
			    size_t *numEdges)
{
	SIM_ENTER(cuGraphGetEdges_v2);
	return list_graph_edges(hGraph, from, to, edgeData, numEdges);
}

// Checks pairs of different nodes of the graph. If `connected` is set, each pair must have an edge; otherwise none may.
static CUresult check_pairs(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count, bool connected)
{
	SIM_TRY(sim_graph_get(graph));
	if (count && (!from || !to))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		SIM_TRY(sim_node_get(from[i]));
		SIM_TRY(sim_node_get(to[i]));
		if (from[i] == to[i] || from[i]->graph != graph || to[i]->graph != graph ||
		    !sim_edges_find(&to[i]->dependencies, from[i]) != !connected)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult add_dependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				 const CUgraphEdgeData *data, size_t count)
{
	SIM_TRY(check_pairs(graph, from, to, count, false));
	for (size_t i = 0; i < count; i++) {
		if (sim_edges_find(&to[i]->dependencies, from[i])) // true only if the program lists a pair twice
			return CUDA_ERROR_INVALID_VALUE;
		SIM_TRY(sim_graph_connect(from[i], to[i], data ? &data[i] : NULL));
	}
	return CUDA_SUCCESS;
}

static CUresult remove_dependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
	SIM_TRY(check_pairs(graph, from, to, count, true));
	if (count && has_memory(graph))
		return CUDA_ERROR_NOT_SUPPORTED;
	for (size_t i = 0; i < count; i++) {
		sim_edges_remove(&to[i]->dependencies, from[i]);
		sim_edges_remove(&from[i]->dependents, to[i]);
	}
	return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
	SIM_ENTER(cuGraphAddDependencies);
	return add_dependencies(hGraph, from, to, NULL, numDependencies);
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				   const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	SIM_ENTER(cuGraphAddDependencies_v2);
	return add_dependencies(hGraph, from, to, edgeData, numDependencies);
}

CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				   size_t numDependencies)
{
	SIM_ENTER(cuGraphRemoveDependencies);
	return remove_dependencies(hGraph, from, to, numDependencies);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				      const CUgraphEdgeData *edgeData, size_t numDependencies)
{
	SIM_ENTER(cuGraphRemoveDependencies_v2);
	return remove_dependencies(hGraph, from, to, numDependencies);
}
