// Changes the nodes of executable graphs: all nodes, to match another graph, or a single node.
#include <stdlib.h>

#include "core/graph.h"
#include "core/graph_builder.h"

// ---- references of changed nodes ----------------------------------------------------------------

static void free_changes(struct core_graph_change **list)
{
	for (struct core_graph_change *change = *list, *next; change; change = next) {
		next = change->next;
		core_graph_keep_destroy(change->keep);
		free(change);
	}
	*list = NULL;
}

// Releases the references of replaced parameters if the last launch has ended. Does not wait for the launch.
static void free_outdated(struct vg_graph *graph)
{
	CORE_RELAXED relaxed = core_relax();

	if (graph->outdated && core_driver->cuEventQuery(graph->launched) == CUDA_SUCCESS)
		free_changes(&graph->outdated);
}

void core_graph_mark_launch(struct vg_graph *graph, CUstream stream)
{
	free_outdated(graph);
	CORE_RELAXED relaxed = core_relax();
	// Recording fails if the stream belongs to another context. Then wait for the stream instead.
	if (core_driver->cuEventRecord(graph->launched, stream))
		core_driver->cuStreamSynchronize(stream);
}

void core_graph_changes_finish(struct vg_graph *graph)
{
	if (graph->launched) {
		core_driver->cuEventSynchronize(graph->launched);
		core_driver->cuEventDestroy_v2(graph->launched);
	}
	free_changes(&graph->outdated);
	free_changes(&graph->changes);
}

static void outdate_change(struct vg_graph *graph, struct core_graph_change **link)
{
	struct core_graph_change *change = *link;

	*link = change->next;
	change->next = graph->outdated;
	graph->outdated = change;
}

// ---- from another graph -------------------------------------------------------------------------

static const char *explain_update(CUgraphExecUpdateResult result)
{
	switch (result) {
	case CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED:
		return "the topology changed (CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED)";
	case CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED:
		return "the kind of a node changed (CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED)";
	case CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED:
		return "the function of a kernel node changed (CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED)";
	case CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED:
		return "the parameters of a node changed in a way that is not supported "
		       "(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED)";
	case CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED:
		return "a node has something that updates do not support (CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED)";
	case CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE:
		return "the function of a kernel node changed in a way that is not supported "
		       "(CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE)";
	case CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED:
		return "the attributes of a node changed in a way that is not supported "
		       "(CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED)";
	default:
		return "see the driver's error (CU_GRAPH_EXEC_UPDATE_ERROR)";
	}
}

static enum vg_status update_graph(struct vg_graph *graph, struct vg_graph_definition *source)
{
	CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};

	core_graph_keep_drain();
	CORE_ENTER(scope, graph->context->handle);
	CUresult r = core_driver->cuGraphExecUpdate_v2(graph->handle, source->handle, &info);
	if (r)
		return core_driver_failed(r, "cuGraphExecUpdate", "graph update failed, the graph is as before: %s",
					  explain_update(info.result));
	// The nodes now use the objects of the source graph, and the driver owns references to these as user objects.
	// So the references of earlier changes are not needed any more.
	while (graph->changes)
		outdate_change(graph, &graph->changes);
	free_outdated(graph);
	return VG_OK;
}

enum vg_status vg_graph_update(struct vg_graph *graph, struct vg_graph_definition *source)
{
	VG_ENTRY();
	CORE_USABLE(graph, "graph");
	CORE_TRY(core_graph_check(source, "source"));
	if (source->root->captures)
		return vg_fail(VG_STATE, 0, "the source graph has not finished building");
	return update_graph(graph, source);
}

enum vg_status vg_graph_update_from_builder(struct vg_graph *graph, struct vg_graph_builder *builder)
{
	VG_ENTRY();
	CORE_USABLE(graph, "graph");
	CORE_NEEDED(builder);
	if (atomic_load(&builder->object.closed))
		return vg_fail(VG_CLOSED, 0, "the source graph builder has been closed");
	if (builder->origin != builder || builder->state != CORE_BUILDER_ENDED || builder->definition->root->captures)
		return vg_fail(VG_STATE, 0, "the source graph builder has not finished building");
	return update_graph(graph, builder->definition);
}

// ---- one node -----------------------------------------------------------------------------------

static enum vg_status create_launched_event(struct vg_graph *graph)
{
	if (graph->launched)
		return VG_OK;
	CUresult r = core_driver->cuEventCreate(&graph->launched, CU_EVENT_DISABLE_TIMING);
	return r ? core_driver_failed(r, "cuEventCreate", "%s", "") : VG_OK;
}

static CUresult set_native(struct vg_graph *graph, const struct vg_graph_node *node, struct core_graph_spec *spec,
			   const char **ret_call)
{
	*ret_call = "cuGraphExecNodeSetParams";
	if (spec->native.type != CU_GRAPH_NODE_TYPE_GRAPH)
		return core_driver->cuGraphExecNodeSetParams(graph->handle, node->handle, &spec->native);
	*ret_call = "cuGraphExecChildGraphNodeSetParams";
	return core_driver->cuGraphExecChildGraphNodeSetParams(graph->handle, node->handle, spec->native.graph.graph);
}

static enum vg_status set_node(struct vg_graph *graph, struct vg_graph_node *node, struct core_graph_spec *spec)
{
	struct core_graph_change **link = &graph->changes, *change = NULL;
	const char *call, *asked = "the node must be of the definition that the graph was made from";

	core_graph_keep_drain();
	CORE_ENTER(scope, graph->context->handle);
	if (spec->keep) {
		CORE_TRY(create_launched_event(graph));
		change = malloc(sizeof *change);
		if (!change)
			return vg_fail(VG_NO_MEMORY, 0, "no memory for the change of a node");
	}
	CUresult r = set_native(graph, node, spec, &call);
	if (r) {
		free(change);
		return core_driver_failed(r, call, "%s", spec->asked ? spec->asked : asked);
	}
	while (*link && (*link)->node != node->handle)
		link = &(*link)->next;
	if (*link)
		outdate_change(graph, link);
	if (change) {
		*change = (struct core_graph_change){graph->changes, node->handle, spec->keep};
		graph->changes = change;
		spec->keep = NULL;
	}
	free_outdated(graph);
	return VG_OK;
}

enum vg_status core_graph_exec_set(struct vg_graph *graph, struct vg_graph_node *node, struct core_graph_spec *spec)
{
	enum vg_status status = set_node(graph, node, spec);

	core_graph_spec_finish(spec); // frees nothing if a call has consumed the references
	return status;
}

enum vg_status vg_graph_set_child(struct vg_graph *graph, struct vg_graph_node *node, struct vg_graph_definition *child)
{
	VG_ENTRY();
	CORE_USABLE(graph, "graph");
	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_GRAPH));
	CORE_TRY(core_graph_check(child, "child"));
	struct core_graph_spec spec = {.native.type = CU_GRAPH_NODE_TYPE_GRAPH,
				       .asked = "the new child graph must have the same nodes and edges"};
	spec.native.graph.graph = child->handle;
	// The definition `child` owns the references that its nodes need. So keep it alive for the executable graph.
	child->root->copied = true;
	spec.keep = core_graph_keep_create(&child->root->object, NULL, NULL, 0);
	if (!spec.keep)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for the change of a node");
	return core_graph_exec_set(graph, node, &spec);
}

enum vg_status vg_graph_set_enabled(struct vg_graph *graph, struct vg_graph_node *node, int enabled)
{
	VG_ENTRY();
	CORE_USABLE(graph, "graph");
	CORE_TRY(core_graph_node_check(node, "node"));
	CORE_ENTER(scope, graph->context->handle);
	CUresult r = core_driver->cuGraphNodeSetEnabled(graph->handle, node->handle, enabled != 0);
	return r ? core_driver_failed(
			   r, "cuGraphNodeSetEnabled",
			   "a %s node: kernel, memset and memcpy nodes of the graph's definition can be switched",
			   core_graph_type_name(node->type))
		 : VG_OK;
}

enum vg_status vg_graph_is_enabled(struct vg_graph *graph, const struct vg_graph_node *node, int *ret_enabled)
{
	VG_ENTRY();
	unsigned enabled;

	CORE_USABLE(graph, "graph");
	CORE_NEEDED(ret_enabled);
	CORE_TRY(core_graph_node_check(node, "node"));
	CORE_ENTER(scope, graph->context->handle);
	CUresult r = core_driver->cuGraphNodeGetEnabled(graph->handle, node->handle, &enabled);
	if (r)
		return core_driver_failed(
			r, "cuGraphNodeGetEnabled",
			"a %s node: kernel, memset and memcpy nodes of the graph's definition can be switched",
			core_graph_type_name(node->type));
	*ret_enabled = enabled != 0;
	return VG_OK;
}
