// Adds child graph nodes and changes them.
#include <stdlib.h>

#include "core/graph.h"

// If the child graph has a node that cannot be embedded, replaces the driver's error by one that says so.
static enum vg_status explain_refusal(struct vg_graph_definition *child, enum vg_status status)
{
	size_t count;

	if (vg_graph_definition_nodes(child, NULL, 0, &count))
		return status;
	struct vg_graph_node **nodes = calloc(count + 1, sizeof *nodes);
	if (nodes && count && vg_graph_definition_nodes(child, nodes, count, &count) == VG_OK) {
		for (size_t i = 0; i < count; i++) {
			CUgraphNodeType type = nodes[i]->type;
			if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && type != CU_GRAPH_NODE_TYPE_MEM_FREE &&
			    type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
				continue;
			status = vg_fail(VG_UNSUPPORTED, 0,
					 "the child graph has a node of kind %s: graphs with allocation, free or "
					 "conditional nodes cannot be embedded",
					 core_graph_type_name(type));
			break;
		}
	}
	free(nodes);
	return status;
}

enum vg_status core_graph_describe_child(const struct vg_graph_definition *definition,
					 struct vg_graph_definition *child, struct core_graph_spec *ret_spec)
{
	CORE_TRY(core_graph_check(definition, "definition"));
	CORE_TRY(core_graph_check(child, "child"));
	if (child == definition || child == definition->root)
		return vg_fail(VG_INVALID, 0, "the graph definition cannot be its own child%s",
			       child == definition ? "" : ", nor that of a graph inside it");
	if (child != child->root)
		return vg_fail(VG_UNSUPPORTED, 0,
			       "the child graph is a node's own, and the driver embeds none of those: build it once "
			       "more as a graph definition");
	if (child->capturing)
		return vg_fail(VG_STATE, 0, "the child graph has not finished building");
	*ret_spec = (struct core_graph_spec){.native.type = CU_GRAPH_NODE_TYPE_GRAPH};
	ret_spec->native.graph.graph = child->handle;
	ret_spec->native.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
	return VG_OK;
}

enum vg_status core_graph_explain_child(struct vg_graph_definition *child, enum vg_status status)
{
	return status == VG_DRIVER ? explain_refusal(child, status) : status;
}

enum vg_status vg_graph_add_child(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				  size_t count, struct vg_graph_definition *child, struct vg_graph_node **ret_node)
{
	VG_ENTRY();
	struct core_graph_spec spec;

	CORE_TRY(core_graph_describe_child(definition, child, &spec));
	enum vg_status status = core_graph_add(definition, after, count, &spec, ret_node);
	return core_graph_explain_child(child, status);
}

enum vg_status vg_graph_node_get_child(struct vg_graph_node *node, struct vg_graph_definition **ret_child)
{
	VG_ENTRY();
	CUgraph handle;

	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_GRAPH));
	CORE_NEEDED(ret_child);
	if (!node->inner) {
		CORE_CALL(cuGraphChildGraphNodeGetGraph, node->handle, &handle);
		struct vg_graph_definition **inner = calloc(1, sizeof *inner);
		if (inner)
			inner[0] = core_graph_create_inner(node->definition, handle);
		if (!inner || !inner[0]) {
			free(inner);
			return vg_fail(VG_NO_MEMORY, 0, "no memory for a graph definition");
		}
		node->inner = inner;
		node->inner_count = 1;
	}
	*ret_child = node->inner[0];
	return VG_OK;
}
