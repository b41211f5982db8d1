// Reads lists of nodes and edges from the driver. Reads the count first, so that no list is truncated.
#include <stdlib.h>

#include "core/graph_definition.h"

enum vg_status core_graph_find_nodes(struct vg_graph_definition *definition, const CUgraphNode *handles, size_t count,
				     struct vg_graph_node **ret_nodes)
{
	struct vg_graph_node *node;

	// The first pass finds or creates the objects of all nodes, and may fail. The second pass writes, and cannot
	// fail.
	for (int write = 0; write < 2; write++) {
		for (size_t i = 0; i < count; i++) {
			CORE_TRY(core_graph_find_node(definition, handles[i], &node));
			if (write)
				ret_nodes[i] = node;
		}
	}
	return VG_OK;
}

enum vg_status vg_graph_definition_nodes(struct vg_graph_definition *definition, struct vg_graph_node **nodes,
					 size_t capacity, size_t *ret_count)
{
	VG_ENTRY();
	size_t count = 0;

	CORE_TRY(core_graph_check(definition, "definition"));
	CORE_NEEDED(ret_count);
	if (capacity)
		CORE_NEEDED(nodes);
	CORE_ENTER(scope, definition->context->handle);
	CORE_CALL(cuGraphGetNodes, definition->handle, NULL, &count);
	if (capacity && count > capacity)
		return core_no_room(count, capacity, "nodes");
	if (capacity && count) {
		CUgraphNode *handles = calloc(count, sizeof *handles);
		if (!handles)
			return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu nodes", count);
		CUresult r = core_driver->cuGraphGetNodes(definition->handle, handles, &count);
		enum vg_status status = r ? core_driver_failed(r, "cuGraphGetNodes", "%s", "")
					  : core_graph_find_nodes(definition, handles, count, nodes);
		free(handles);
		if (status)
			return status;
	}
	*ret_count = count;
	return VG_OK;
}

static enum vg_status list_edges(struct vg_graph_definition *definition, CUgraphNode *from, CUgraphNode *to,
				 CUgraphEdgeData *data, size_t count, struct vg_graph_edge *ret_edges)
{
	struct vg_graph_edge edge;

	if (!from || !to || !data)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu edges", count);
	CUresult r = core_driver->cuGraphGetEdges_v2(definition->handle, from, to, data, &count);
	if (r)
		return core_driver_failed(r, "cuGraphGetEdges", "%s", "");
	for (int write = 0; write < 2; write++) {
		for (size_t i = 0; i < count; i++) {
			CORE_TRY(core_graph_find_node(definition, from[i], &edge.from));
			CORE_TRY(core_graph_find_node(definition, to[i], &edge.to));
			if (write)
				ret_edges[i] = edge;
		}
	}
	return VG_OK;
}

enum vg_status vg_graph_definition_edges(struct vg_graph_definition *definition, struct vg_graph_edge *edges,
					 size_t capacity, size_t *ret_count)
{
	VG_ENTRY();
	size_t count = 0;

	CORE_TRY(core_graph_check(definition, "definition"));
	CORE_NEEDED(ret_count);
	if (capacity)
		CORE_NEEDED(edges);
	CORE_ENTER(scope, definition->context->handle);
	CORE_CALL(cuGraphGetEdges_v2, definition->handle, NULL, NULL, NULL, &count);
	if (capacity && count > capacity)
		return core_no_room(count, capacity, "edges");
	if (capacity && count) {
		CUgraphNode *from = calloc(count, sizeof *from), *to = calloc(count, sizeof *to);
		CUgraphEdgeData *data = calloc(count, sizeof *data);
		enum vg_status status = list_edges(definition, from, to, data, count, edges);
		free(from);
		free(to);
		free(data);
		if (status)
			return status;
	}
	*ret_count = count;
	return VG_OK;
}
