// Adds conditional nodes and their bodies.
#include <stdlib.h>

#include "core/graph.h"
#include "core/graph_condition.h"

enum { MOST_BRANCHES = 1 << 16 }; // maximum number of branches; each branch is a graph of its own

static const char *const type_names[] = {"if", "while", "switch"};

void core_graph_conditional_finish(struct core_graph_conditional *conditional)
{
	for (unsigned i = 0; conditional->bodies && i < conditional->count; i++)
		if (conditional->bodies[i])
			core_graph_free(conditional->bodies[i]);
	free(conditional->bodies);
	conditional->bodies = NULL;
}

enum vg_status core_graph_conditional_init(struct core_graph_conditional *conditional,
					   struct vg_graph_definition *definition, struct vg_graph_condition condition,
					   enum vg_graph_conditional_type type, unsigned count)
{
	*conditional = (struct core_graph_conditional){.condition = condition, .type = type, .count = count};
	if (!condition.handle)
		return vg_fail(VG_INVALID, 0,
			       "the condition is empty: vg_graph_definition_create_condition() makes one");
	CORE_TRY(core_condition_check(definition, condition.handle, "the condition"));
	if (!count)
		return vg_fail(VG_INVALID, 0, "a switch of 0 branches: it needs 1 or more");
	if (count > MOST_BRANCHES)
		return vg_fail(VG_INVALID, 0, "a switch of %u branches: this library makes up to %d", count,
			       MOST_BRANCHES);
	conditional->bodies = calloc(count, sizeof *conditional->bodies);
	for (unsigned i = 0; conditional->bodies && i < count; i++) {
		conditional->bodies[i] = core_graph_create_inner(definition, NULL);
		if (!conditional->bodies[i])
			core_graph_conditional_finish(conditional);
	}
	if (!conditional->bodies)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %u branches", count);
	conditional->spec.asked =
		"each condition is for one conditional node of the definition that it was created for";
	conditional->spec.native.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
	conditional->spec.native.conditional = (CUDA_CONDITIONAL_NODE_PARAMS){
		.handle = condition.handle,
		.type = (CUgraphConditionalNodeType)type,
		.size = count,
		.ctx = definition->context->handle,
	};
	return VG_OK;
}

void core_graph_conditional_added(struct core_graph_conditional *conditional, struct vg_graph_node *node)
{
	for (unsigned i = 0; i < conditional->count; i++)
		conditional->bodies[i]->handle = conditional->spec.native.conditional.phGraph_out[i];
	node->inner = conditional->bodies;
	node->inner_count = conditional->count;
	node->condition = conditional->condition;
	node->condition_type = conditional->type;
	conditional->bodies = NULL;
}

static enum vg_status add_conditional(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				      size_t count, struct vg_graph_condition condition,
				      enum vg_graph_conditional_type type, unsigned branches,
				      struct vg_graph_node **ret_node)
{
	struct core_graph_conditional conditional;
	struct vg_graph_node *node;

	CORE_TRY(core_graph_check(definition, "definition"));
	CORE_TRY(core_graph_conditional_init(&conditional, definition, condition, type, branches));
	enum vg_status status = core_graph_add(definition, after, count, &conditional.spec, &node);
	if (status) {
		core_graph_conditional_finish(&conditional);
		return status;
	}
	core_graph_conditional_added(&conditional, node);
	if (ret_node)
		*ret_node = node;
	return VG_OK;
}

enum vg_status vg_graph_add_if_then(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				    size_t count, struct vg_graph_condition condition, struct vg_graph_node **ret_node)
{
	VG_ENTRY();
	return add_conditional(definition, after, count, condition, VG_GRAPH_IF, 1, ret_node);
}

enum vg_status vg_graph_add_if_else(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				    size_t count, struct vg_graph_condition condition, struct vg_graph_node **ret_node)
{
	VG_ENTRY();
	return add_conditional(definition, after, count, condition, VG_GRAPH_IF, 2, ret_node);
}

enum vg_status vg_graph_add_while_loop(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				       size_t count, struct vg_graph_condition condition,
				       struct vg_graph_node **ret_node)
{
	VG_ENTRY();
	return add_conditional(definition, after, count, condition, VG_GRAPH_WHILE, 1, ret_node);
}

enum vg_status vg_graph_add_switch(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
				   size_t count, struct vg_graph_condition condition, unsigned branches,
				   struct vg_graph_node **ret_node)
{
	VG_ENTRY();
	return add_conditional(definition, after, count, condition, VG_GRAPH_SWITCH, branches, ret_node);
}

static enum vg_status check_known(const struct vg_graph_node *node)
{
	CORE_TRY(core_graph_node_check_type(node, CU_GRAPH_NODE_TYPE_CONDITIONAL));
	if (node->condition_type < 0)
		return vg_fail(VG_UNSUPPORTED, 0,
			       "the conditional node was not made by this library, and the driver has no query for it");
	return VG_OK;
}

enum vg_status vg_graph_node_get_conditional(const struct vg_graph_node *node, struct vg_graph_condition *ret_condition,
					     enum vg_graph_conditional_type *ret_type, unsigned *ret_branches)
{
	VG_ENTRY();
	CORE_TRY(check_known(node));
	if (ret_condition)
		*ret_condition = node->condition;
	if (ret_type)
		*ret_type = (enum vg_graph_conditional_type)node->condition_type;
	if (ret_branches)
		*ret_branches = node->inner_count;
	return VG_OK;
}

enum vg_status vg_graph_node_get_body(struct vg_graph_node *node, unsigned branch,
				      struct vg_graph_definition **ret_body)
{
	VG_ENTRY();
	CORE_TRY(check_known(node));
	CORE_NEEDED(ret_body);
	if (branch >= node->inner_count)
		return vg_fail(VG_INVALID, 0, "branch %u: the %s node has %u, counted from 0", branch,
			       type_names[node->condition_type], node->inner_count);
	*ret_body = node->inner[branch];
	return VG_OK;
}
