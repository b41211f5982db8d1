// Reads and changes the edges of a node. Only the driver stores the edges: each call reads them from the driver.
#include <stdlib.h>

#include "core/graph.h"

// Either the predecessors or the successors of a node, with the data of the edges.
struct side {
	CUgraphNode *nodes;
	CUgraphEdgeData *data;
	size_t count;
};

static CUresult query_side(const struct vg_graph_node *node, bool before, CUgraphNode *nodes, CUgraphEdgeData *data,
			   size_t *count)
{
	return before ? core_driver->cuGraphNodeGetDependencies_v2(node->handle, nodes, data, count)
		      : core_driver->cuGraphNodeGetDependentNodes_v2(node->handle, nodes, data, count);
}

static void finish_side(struct side *side)
{
	free(side->nodes);
	free(side->data);
}
#define SIDE __attribute__((cleanup(finish_side))) struct side

static enum vg_status read_side(struct side *side, const struct vg_graph_node *node, bool before)
{
	const char *call = before ? "cuGraphNodeGetDependencies" : "cuGraphNodeGetDependentNodes";

	*side = (struct side){0};
	CUresult r = query_side(node, before, NULL, NULL, &side->count);
	if (r)
		return core_driver_failed(r, call, "%s", "");
	side->nodes = calloc(side->count + 1, sizeof *side->nodes);
	side->data = calloc(side->count + 1, sizeof *side->data);
	if (!side->nodes || !side->data)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu nodes", side->count);
	if (side->count)
		r = query_side(node, before, side->nodes, side->data, &side->count);
	return r ? core_driver_failed(r, call, "%s", "") : VG_OK;
}

static enum vg_status list_side(const struct vg_graph_node *node, bool before, struct vg_graph_node **nodes,
				size_t capacity, size_t *ret_count)
{
	SIDE side = {0};

	CORE_TRY(core_graph_node_check(node, "node"));
	if (!ret_count || (capacity && !nodes))
		return vg_fail(VG_INVALID, 0, "%s is NULL", ret_count ? "nodes" : "ret_count");
	CORE_ENTER(scope, node->definition->context->handle);
	CORE_TRY(read_side(&side, node, before));
	if (capacity && side.count > capacity)
		return core_no_room(side.count, capacity, "nodes");
	if (capacity)
		CORE_TRY(core_graph_find_nodes(node->definition, side.nodes, side.count, nodes));
	*ret_count = side.count;
	return VG_OK;
}

enum vg_status vg_graph_node_predecessors(const struct vg_graph_node *node, struct vg_graph_node **nodes,
					  size_t capacity, size_t *ret_count)
{
	VG_ENTRY();
	return list_side(node, true, nodes, capacity, ret_count);
}

enum vg_status vg_graph_node_successors(const struct vg_graph_node *node, struct vg_graph_node **nodes, size_t capacity,
					size_t *ret_count)
{
	VG_ENTRY();
	return list_side(node, false, nodes, capacity, ret_count);
}

// ---- one edge -----------------------------------------------------------------------------------

static size_t find_position(const struct side *side, const struct vg_graph_node *node)
{
	size_t i = 0;

	while (i < side->count && side->nodes[i] != node->handle)
		i++;
	return i;
}

static enum vg_status check_pair(const struct vg_graph_node *from, const struct vg_graph_node *to)
{
	CORE_TRY(core_graph_node_check(from, "from"));
	CORE_TRY(core_graph_node_check(to, "to"));
	if (from == to)
		return vg_fail(VG_INVALID, 0, "a node cannot wait for itself");
	if (from->definition != to->definition)
		return vg_fail(VG_INVALID, 0, "the two nodes belong to different graph definitions");
	return VG_OK;
}

enum vg_status vg_graph_edge_add(struct vg_graph_node *from, struct vg_graph_node *to)
{
	VG_ENTRY();
	SIDE side = {0};

	CORE_TRY(check_pair(from, to));
	CORE_ENTER(scope, to->definition->context->handle);
	CORE_TRY(read_side(&side, to, true));
	if (find_position(&side, from) < side.count)
		return VG_OK;
	CORE_CALL(cuGraphAddDependencies_v2, to->definition->handle, &from->handle, &to->handle, NULL, 1);
	return VG_OK;
}

enum vg_status vg_graph_edge_remove(struct vg_graph_node *from, struct vg_graph_node *to)
{
	VG_ENTRY();
	SIDE side = {0};

	CORE_TRY(check_pair(from, to));
	CORE_ENTER(scope, to->definition->context->handle);
	CORE_TRY(read_side(&side, to, true));
	size_t at = find_position(&side, from);
	if (at == side.count)
		return VG_OK;
	CORE_CALL(cuGraphRemoveDependencies_v2, to->definition->handle, &from->handle, &to->handle, &side.data[at], 1);
	return VG_OK;
}

// ---- a whole side -------------------------------------------------------------------------------

static CUresult change_edges(const struct vg_graph_node *node, bool before, const struct side *side, bool present)
{
	CUgraph graph = node->definition->handle;
	CUgraphNode *self = calloc(side->count + 1, sizeof(CUgraphNode));
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (!self)
		return r;
	for (size_t i = 0; i < side->count; i++)
		self[i] = node->handle;
	const CUgraphNode *from = before ? side->nodes : self, *to = before ? self : side->nodes;
	if (present)
		r = core_driver->cuGraphAddDependencies_v2(graph, from, to, side->data, side->count);
	else
		r = core_driver->cuGraphRemoveDependencies_v2(graph, from, to, side->data, side->count);
	free(self);
	return r;
}

// Lists in `ret_old` the existing edges that are not wanted, and in `ret_new` the wanted edges that do not exist.
static enum vg_status compare_sides(const struct side *have, struct vg_graph_node *const *wanted, size_t count,
				    struct vg_graph_definition *definition, struct side *ret_new, struct side *ret_old)
{
	uint64_t mark = definition->root->mark; // every wanted node has the same `mark` as the root
	struct vg_graph_node *node;

	for (size_t i = 0; i < have->count; i++) {
		CORE_TRY(core_graph_find_node(definition, have->nodes[i], &node));
		if (node->mark != mark) {
			ret_old->data[ret_old->count] = have->data[i];
			ret_old->nodes[ret_old->count++] = node->handle;
		}
		// This node has an edge already. Clear its mark, so that after this loop only the wanted nodes that
		// have no edge yet still have the root's mark.
		node->mark = 0;
	}
	for (size_t i = 0; i < count; i++)
		if (wanted[i]->mark == mark)
			ret_new->nodes[ret_new->count++] = wanted[i]->handle;
	return VG_OK;
}

static enum vg_status allocate_side(struct side *side, size_t count)
{
	side->nodes = calloc(count + 1, sizeof *side->nodes);
	side->data = calloc(count + 1, sizeof *side->data);
	return side->nodes && side->data ? VG_OK : vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu nodes", count);
}

static enum vg_status assign_side(struct vg_graph_node *node, bool before, struct vg_graph_node *const *wanted,
				  size_t count)
{
	SIDE have = {0};
	SIDE come = {0};
	SIDE go = {0};

	CORE_ENTER(scope, node->definition->context->handle);
	CORE_TRY(read_side(&have, node, before));
	CORE_TRY(allocate_side(&come, count));
	CORE_TRY(allocate_side(&go, have.count));
	CORE_TRY(core_graph_check_list(node->definition, wanted, count, come.nodes));
	CORE_TRY(compare_sides(&have, wanted, count, node->definition, &come, &go));
	CUresult r = come.count ? change_edges(node, before, &come, true) : CUDA_SUCCESS;
	if (r)
		return core_driver_failed(r, "cuGraphAddDependencies", "%s", "");
	r = go.count ? change_edges(node, before, &go, false) : CUDA_SUCCESS;
	if (r == CUDA_SUCCESS)
		return VG_OK;
	enum vg_status status = core_driver_failed(r, "cuGraphRemoveDependencies", "%s", "");
	if (come.count)
		change_edges(node, before, &come, false);
	return status;
}

static enum vg_status check_side(const struct vg_graph_node *node, struct vg_graph_node *const *nodes, size_t count)
{
	CORE_TRY(core_graph_node_check(node, "node"));
	if (count && !nodes)
		return vg_fail(VG_INVALID, 0, "nodes is NULL, and count is %zu", count);
	for (size_t i = 0; i < count; i++)
		if (nodes[i] == node)
			return vg_fail(VG_INVALID, 0, "a node cannot wait for itself");
	return VG_OK;
}

enum vg_status vg_graph_node_set_predecessors(struct vg_graph_node *node, struct vg_graph_node *const *nodes,
					      size_t count)
{
	VG_ENTRY();
	CORE_TRY(check_side(node, nodes, count));
	return assign_side(node, true, nodes, count);
}

enum vg_status vg_graph_node_set_successors(struct vg_graph_node *node, struct vg_graph_node *const *nodes,
					    size_t count)
{
	VG_ENTRY();
	CORE_TRY(check_side(node, nodes, count));
	return assign_side(node, false, nodes, count);
}
