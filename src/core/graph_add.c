// Adds nodes to a graph definition, and sets their parameters.
#include <stdlib.h>

#include "core/graph.h"

enum vg_status core_graph_check_list(struct vg_graph_definition *definition, struct vg_graph_node *const *nodes,
				     size_t count, CUgraphNode *ret_handles)
{
	uint64_t mark = ++definition->root->mark;

	for (size_t i = 0; i < count; i++) {
		CORE_TRY(core_graph_node_check(nodes[i], "a node of the list"));
		if (nodes[i]->definition != definition)
			return vg_fail(VG_INVALID, 0, "node %zu of the list belongs to another graph definition", i);
		if (nodes[i]->mark == mark)
			return vg_fail(VG_INVALID, 0, "node %zu of the list was named before: name each once", i);
		nodes[i]->mark = mark;
		ret_handles[i] = nodes[i]->handle;
	}
	return VG_OK;
}

void core_graph_spec_finish(struct core_graph_spec *spec)
{
	core_graph_keep_destroy(spec->keep);
	spec->keep = NULL;
}

enum vg_status core_graph_add_native(struct vg_graph_definition *definition, const CUgraphNode *after,
				     const CUgraphEdgeData *data, size_t count, struct core_graph_spec *spec,
				     struct vg_graph_node **ret_node)
{
	CUgraph root = definition->root->handle;
	CUgraphNode handle;

	CORE_ENTER(scope, definition->context->handle);
	struct vg_graph_node *node = calloc(1, sizeof *node);
	if (!node)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a graph node");
	node->keep = spec->keep;
	spec->keep = NULL; // the next call takes these references
	CUresult r = core_graph_keep_attach(node->keep, root);
	if (r) {
		free(node);
		return core_driver_failed(r, "cuGraphRetainUserObject", "%s", "");
	}
	r = core_driver->cuGraphAddNode_v2(&handle, definition->handle, after, data, count, &spec->native);
	if (r) {
		enum vg_status status = core_driver_failed(r, "cuGraphAddNode", "%s", spec->asked ? spec->asked : "");
		core_graph_keep_detach(node->keep, root);
		free(node);
		return status;
	}
	core_graph_register(definition, node, handle, spec->native.type);
	*ret_node = node;
	return VG_OK;
}

void core_graph_remove_added(struct vg_graph_node *node)
{
	struct vg_kept_error kept;

	vg_error_keep(&kept);
	vg_graph_node_remove(node);
	vg_error_restore(&kept);
}

static enum vg_status add_node(struct vg_graph_definition *definition, struct vg_graph_node *const *after, size_t count,
			       struct core_graph_spec *spec, struct vg_graph_node **ret_node)
{
	struct vg_graph_node *node;

	CORE_TRY(core_graph_check(definition, "definition"));
	if (count && !after)
		return vg_fail(VG_INVALID, 0, "after is NULL, and count is %zu", count);
	core_graph_keep_drain();
	CUgraphNode *handles = calloc(count + !count, sizeof *handles);
	if (!handles)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu nodes", count);
	enum vg_status status = core_graph_check_list(definition, after, count, handles);
	if (status == VG_OK)
		status = core_graph_add_native(definition, handles, NULL, count, spec, &node);
	free(handles);
	if (status == VG_OK && ret_node)
		*ret_node = node;
	return status;
}

enum vg_status core_graph_add(struct vg_graph_definition *definition, struct vg_graph_node *const *after, size_t count,
			      struct core_graph_spec *spec, struct vg_graph_node **ret_node)
{
	enum vg_status status = add_node(definition, after, count, spec, ret_node);

	core_graph_spec_finish(spec); // frees nothing if a call has consumed the references
	return status;
}

static enum vg_status set_node(struct vg_graph_node *node, struct core_graph_spec *spec)
{
	CUgraph root = node->definition->root->handle;

	CORE_ENTER(scope, node->definition->context->handle);
	struct core_graph_keep *keep = spec->keep, *before = node->keep;
	spec->keep = NULL; // the next call takes these references
	CUresult r = core_graph_keep_attach(keep, root);
	if (r)
		return core_driver_failed(r, "cuGraphRetainUserObject", "%s", "");
	r = core_driver->cuGraphNodeSetParams(node->handle, &spec->native);
	node->keep = r ? before : keep;
	enum vg_status status = r ? core_driver_failed(r, "cuGraphNodeSetParams", "%s", "") : VG_OK;
	if (r || !node->definition->root->copied)
		core_graph_keep_detach(r ? keep : before, root);
	return status;
}

enum vg_status core_graph_node_set(struct vg_graph_node *node, struct core_graph_spec *spec)
{
	enum vg_status status = set_node(node, spec);

	core_graph_spec_finish(spec); // frees nothing if a call has consumed the references
	core_graph_keep_drain();
	return status;
}

enum vg_status vg_graph_add_empty(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				  size_t count, struct vg_graph_node **ret_node)
{
	VG_ENTRY();
	struct core_graph_spec spec = {.native.type = CU_GRAPH_NODE_TYPE_EMPTY};

	return core_graph_add(definition, after, count, &spec, ret_node);
}
