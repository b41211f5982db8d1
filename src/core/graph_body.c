// Adds two kinds of nodes to the graph that a graph builder captures: child graph nodes and conditional nodes. For each
// body of a conditional node, it creates another builder, which captures the work of the body.
#include <stdlib.h>

#include "core/graph.h"
#include "core/graph_builder.h"
#include "core/stream.h"

static const char not_building[] = "is not building: begin first";

static enum vg_status embed_graph(struct vg_graph_builder *builder, struct vg_graph_definition *child)
{
	struct core_graph_spec spec;

	CORE_TRY(core_builder_check(builder, "is not being built: begin the parent first"));
	CORE_TRY(core_graph_describe_child(builder->origin->definition, child, &spec));
	enum vg_status status = core_builder_append(builder, &spec, NULL);
	return core_graph_explain_child(child, status);
}

enum vg_status vg_graph_builder_embed(struct vg_graph_builder *builder, struct vg_graph_builder *child)
{
	VG_ENTRY();
	CORE_USABLE(child, "child");
	if (child->origin != child || child->state != CORE_BUILDER_ENDED)
		return vg_fail(VG_STATE, 0, "the child graph has not finished building");
	return embed_graph(builder, child->definition);
}

enum vg_status vg_graph_builder_embed_definition(struct vg_graph_builder *builder, struct vg_graph_definition *child)
{
	VG_ENTRY();
	return embed_graph(builder, child);
}

enum vg_status vg_graph_builder_create_condition(struct vg_graph_builder *builder,
						 const struct vg_graph_condition_options *options,
						 struct vg_graph_condition *ret_condition)
{
	VG_ENTRY();
	CORE_TRY(core_builder_check(builder, not_building));
	return vg_graph_definition_create_condition(builder->origin->definition, options, ret_condition);
}

// ---- conditional nodes --------------------------------------------------------------------------

static enum vg_status create_body(struct vg_graph_builder *builder, struct vg_graph_builder **ret_body)
{
	struct vg_stream *stream;

	enum vg_status status = vg_stream_create(builder->stream->context, NULL, &stream);
	if (status)
		return status;
	*ret_body = core_builder_new(stream, &status);
	vg_stream_destroy(stream); // the builder has its own reference
	if (*ret_body)
		(*ret_body)->body = true;
	return status;
}

static void destroy_bodies(struct vg_graph_builder **bodies, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		vg_graph_builder_destroy(bodies[i]);
	free(bodies);
}

static enum vg_status create_bodies(struct vg_graph_builder *builder, unsigned count,
				    struct vg_graph_builder ***ret_bodies)
{
	struct vg_graph_builder **bodies = calloc(count, sizeof(struct vg_graph_builder *));

	if (!bodies)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %u graph builders", count);
	for (unsigned i = 0; i < count; i++) {
		enum vg_status status = create_body(builder, &bodies[i]);
		if (status) {
			destroy_bodies(bodies, count);
			return status;
		}
	}
	*ret_bodies = bodies;
	return VG_OK;
}

// Adds a conditional node, and creates a builder for each of its `count` bodies. The caller frees the array of
// builders.
static enum vg_status add_conditional(struct vg_graph_builder *builder, struct vg_graph_condition condition,
				      enum vg_graph_conditional_type type, unsigned count,
				      struct vg_graph_builder ***ret_bodies)
{
	struct core_graph_conditional conditional;
	struct vg_graph_builder **bodies = NULL;
	struct vg_graph_node *node;

	CORE_TRY(core_builder_check(builder, not_building));
	struct vg_graph_definition *definition = builder->origin->definition;
	CORE_TRY(core_graph_conditional_init(&conditional, definition, condition, type, count));
	enum vg_status status = create_bodies(builder, count, &bodies);
	if (status == VG_OK) {
		status = core_builder_append(builder, &conditional.spec, &node);
		if (status)
			destroy_bodies(bodies, count);
	}
	if (status) {
		core_graph_conditional_finish(&conditional);
		return status;
	}
	core_graph_conditional_added(&conditional, node);
	for (unsigned i = 0; i < count; i++) {
		bodies[i]->definition = node->inner[i];
		core_object_retain(&definition->root->object);
	}
	*ret_bodies = bodies;
	return VG_OK;
}

enum vg_status vg_graph_builder_switch(struct vg_graph_builder *builder, struct vg_graph_condition condition,
				       unsigned count, struct vg_graph_builder **ret_branches)
{
	VG_ENTRY();
	struct vg_graph_builder **bodies = NULL;

	CORE_NEEDED(ret_branches);
	CORE_TRY(add_conditional(builder, condition, VG_GRAPH_SWITCH, count, &bodies));
	for (unsigned i = 0; i < count; i++)
		ret_branches[i] = bodies[i];
	free(bodies);
	return VG_OK;
}

enum vg_status vg_graph_builder_if_else(struct vg_graph_builder *builder, struct vg_graph_condition condition,
					struct vg_graph_builder **ret_then, struct vg_graph_builder **ret_else)
{
	VG_ENTRY();
	struct vg_graph_builder **bodies = NULL;

	CORE_NEEDED(ret_then);
	CORE_NEEDED(ret_else);
	CORE_TRY(add_conditional(builder, condition, VG_GRAPH_IF, 2, &bodies));
	*ret_then = bodies[0];
	*ret_else = bodies[1];
	free(bodies);
	return VG_OK;
}

static enum vg_status add_with_one_body(struct vg_graph_builder *builder, struct vg_graph_condition condition,
					enum vg_graph_conditional_type type, struct vg_graph_builder **ret_body)
{
	struct vg_graph_builder **bodies = NULL;

	CORE_TRY(add_conditional(builder, condition, type, 1, &bodies));
	*ret_body = bodies[0];
	free(bodies);
	return VG_OK;
}

enum vg_status vg_graph_builder_if_then(struct vg_graph_builder *builder, struct vg_graph_condition condition,
					struct vg_graph_builder **ret_then)
{
	VG_ENTRY();
	CORE_NEEDED(ret_then);
	return add_with_one_body(builder, condition, VG_GRAPH_IF, ret_then);
}

enum vg_status vg_graph_builder_while_loop(struct vg_graph_builder *builder, struct vg_graph_condition condition,
					   struct vg_graph_builder **ret_body)
{
	VG_ENTRY();
	CORE_NEEDED(ret_body);
	return add_with_one_body(builder, condition, VG_GRAPH_WHILE, ret_body);
}
