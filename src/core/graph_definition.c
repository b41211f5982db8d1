#include "core/graph_definition.h"

#include "core/graph_condition.h"

#include <stdlib.h>

enum { FIRST_BUCKETS = 16 };

void core_graph_mark_lost(struct vg_graph_definition *definition)
{
	definition->root->lost = true;
}

static enum vg_status close_definition(struct core_object *object)
{
	struct vg_graph_definition *definition = (struct vg_graph_definition *)object;
	CORE_SCOPE scope = {false};

	core_conditions_remove(definition);
	core_enter(&scope, definition->context->handle); // on failure, continue without a current context
	// If the driver has destroyed the body of a conditional node, it crashes when the graph is destroyed. So leak
	// such a graph.
	CUresult r = definition->lost ? CUDA_SUCCESS : core_driver->cuGraphDestroy(definition->handle);
	definition->handle = NULL;
	core_graph_keep_drain();
	return r ? core_driver_failed(r, "cuGraphDestroy", "%s", "") : VG_OK;
}

static void free_definition(struct core_object *object)
{
	struct vg_graph_definition *definition = (struct vg_graph_definition *)object;

	core_object_release(&definition->context->object);
	core_graph_free(definition);
}

static const struct core_class definition_class = {"graph definition", close_definition, free_definition};

static struct vg_graph_definition *create_definition(CUgraph handle)
{
	struct vg_graph_definition *definition = calloc(1, sizeof *definition);

	if (!definition)
		return NULL;
	definition->buckets = calloc(FIRST_BUCKETS, sizeof *definition->buckets);
	if (!definition->buckets) {
		free(definition);
		return NULL;
	}
	definition->bucket_count = FIRST_BUCKETS;
	definition->handle = handle;
	definition->root = definition;
	core_object_init(&definition->object, &definition_class);
	return definition;
}

struct vg_graph_definition *core_graph_create_inner(struct vg_graph_definition *outer, CUgraph handle)
{
	struct vg_graph_definition *definition = create_definition(handle);

	if (definition) {
		definition->root = outer->root;
		definition->context = outer->context;
	}
	return definition;
}

static void free_nodes(struct vg_graph_node *node)
{
	for (struct vg_graph_node *next; node; node = next) {
		next = node->next;
		for (unsigned i = 0; i < node->inner_count; i++)
			core_graph_free(node->inner[i]);
		free(node->inner);
		free(node);
	}
}

void core_graph_free(struct vg_graph_definition *definition)
{
	for (size_t i = 0; i < definition->bucket_count; i++)
		free_nodes(definition->buckets[i]);
	free_nodes(definition->removed);
	free(definition->buckets);
	free(definition);
}

enum vg_status core_graph_check(const struct vg_graph_definition *definition, const char *name)
{
	if (!definition)
		return vg_fail(VG_INVALID, 0, "%s is NULL", name);
	if (atomic_load(&definition->root->object.closed))
		return vg_fail(VG_CLOSED, 0, "the graph definition has been closed");
	if (definition->root->lost)
		return vg_fail(VG_STATE, 0,
			       "the driver destroyed a graph of this definition with a capture into it that was "
			       "invalidated: build it again");
	if (!definition->handle)
		return vg_fail(VG_CLOSED, 0, "the graph definition went with its node, which has been removed");
	return VG_OK;
}

enum vg_status vg_graph_definition_create(struct vg_context *context, struct vg_graph_definition **ret_definition)
{
	VG_ENTRY();
	CUgraph handle;

	CORE_USABLE(context, "context");
	CORE_NEEDED(ret_definition);
	core_graph_keep_drain();
	CORE_ENTER(scope, context->handle);
	struct vg_graph_definition *definition = create_definition(NULL);
	if (!definition)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a graph definition");
	CUresult r = core_driver->cuGraphCreate(&handle, 0);
	if (r) {
		core_graph_free(definition);
		return core_driver_failed(r, "cuGraphCreate", "%s", "");
	}
	definition->handle = handle;
	core_object_retain(&context->object);
	definition->context = context;
	*ret_definition = definition;
	return VG_OK;
}

enum vg_status vg_graph_definition_close(struct vg_graph_definition *definition)
{
	VG_ENTRY();
	CORE_NEEDED(definition);
	if (definition != definition->root)
		return vg_fail(VG_INVALID, 0, "the graph definition belongs to its node: remove that");
	return core_object_close(&definition->object);
}

void vg_graph_definition_destroy(struct vg_graph_definition *definition)
{
	core_object_release(definition ? &definition->root->object : NULL);
}

struct CUgraph_st *vg_graph_definition_handle(const struct vg_graph_definition *definition)
{
	return definition && !definition->root->object.closed && !definition->root->lost ? definition->handle : NULL;
}

struct vg_context *vg_graph_definition_context(const struct vg_graph_definition *definition)
{
	return definition ? definition->context : NULL;
}

enum vg_status vg_graph_definition_create_condition(struct vg_graph_definition *definition,
						    const struct vg_graph_condition_options *options,
						    struct vg_graph_condition *ret_condition)
{
	VG_ENTRY();
	struct vg_graph_condition_options o;
	CUgraphConditionalHandle handle;

	CORE_TRY(core_graph_check(definition, "definition"));
	CORE_NEEDED(ret_condition);
	CORE_OPTIONS(o, options);
	CORE_ENTER(scope, definition->context->handle);
	struct core_condition *condition = core_condition_create();
	if (!condition)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a condition");
	CUresult r = core_driver->cuGraphConditionalHandleCreate(&handle, definition->handle,
								 definition->context->handle, o.default_value,
								 o.assign_default ? CU_GRAPH_COND_ASSIGN_DEFAULT : 0);
	if (r) {
		free(condition);
		return core_driver_failed(r, "cuGraphConditionalHandleCreate", "%s", "");
	}
	core_condition_add(condition, handle, definition);
	*ret_condition = (struct vg_graph_condition){handle};
	return VG_OK;
}

enum vg_status vg_graph_definition_dot(struct vg_graph_definition *definition, const char *path,
				       const struct vg_graph_dot_options *options)
{
	VG_ENTRY();
	struct vg_graph_dot_options o;
	unsigned flags = 0;

	CORE_TRY(core_graph_check(definition, "definition"));
	CORE_NEEDED(path);
	CORE_OPTIONS(o, options);
	// The fields are in the order of the driver's flags: field number n is bit n.
	_Static_assert(offsetof(struct vg_graph_dot_options, conditional_node_parameters) -
				       offsetof(struct vg_graph_dot_options, verbose) ==
			       15 * sizeof(int),
		       "one field for each bit");
	const int *fields = &o.verbose;
	for (unsigned bit = 0; bit <= 15; bit++)
		flags |= fields[bit] ? 1u << bit : 0;
	CORE_ENTER(scope, definition->context->handle);
	CUresult r = core_driver->cuGraphDebugDotPrint(definition->handle, path, flags);
	return r ? core_driver_failed(r, "cuGraphDebugDotPrint", "to %s", path) : VG_OK;
}
