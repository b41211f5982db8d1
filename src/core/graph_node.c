#include "virgate/graph_node.h"

#include <stdlib.h>

#include "core/graph.h"

// ---- nodes by their handle ----------------------------------------------------------------------

static size_t bucket_of(const struct vg_graph_definition *definition, CUgraphNode handle)
{
	// Handles are addresses, whose low bits are zero.
	return (size_t)((uintptr_t)handle * 0x9e3779b97f4a7c15u >> 32) & (definition->bucket_count - 1);
}

static struct vg_graph_node *find_node(const struct vg_graph_definition *definition, CUgraphNode handle)
{
	struct vg_graph_node *node = definition->buckets[bucket_of(definition, handle)];

	while (node && node->handle != handle)
		node = node->next;
	return node;
}

static void insert_node(struct vg_graph_definition *definition, struct vg_graph_node *node)
{
	struct vg_graph_node **bucket = &definition->buckets[bucket_of(definition, node->handle)];

	node->next = *bucket;
	*bucket = node;
}

// Doubles the number of buckets. If memory runs out, the buckets just have longer lists.
static void grow_buckets(struct vg_graph_definition *definition)
{
	size_t count = definition->bucket_count;
	struct vg_graph_node **before = definition->buckets, **buckets = calloc(count * 2, sizeof *buckets);

	if (!buckets)
		return;
	definition->buckets = buckets;
	definition->bucket_count = count * 2;
	for (size_t i = 0; i < count; i++) {
		for (struct vg_graph_node *node = before[i], *next; node; node = next) {
			next = node->next;
			insert_node(definition, node);
		}
	}
	free(before);
}

void core_graph_register(struct vg_graph_definition *definition, struct vg_graph_node *node, CUgraphNode handle,
			 CUgraphNodeType type)
{
	node->definition = definition;
	node->handle = handle;
	node->type = type;
	node->condition_type = -1;
	if (++definition->node_count > definition->bucket_count)
		grow_buckets(definition);
	insert_node(definition, node);
}

enum vg_status core_graph_find_node(struct vg_graph_definition *definition, CUgraphNode handle,
				    struct vg_graph_node **ret_node)
{
	struct vg_graph_node *node = find_node(definition, handle);
	CUgraphNodeType type;

	if (!node) {
		CUresult r = core_driver->cuGraphNodeGetType(handle, &type);
		if (r)
			return core_driver_failed(r, "cuGraphNodeGetType", "%s", "");
		node = calloc(1, sizeof *node);
		if (!node)
			return vg_fail(VG_NO_MEMORY, 0, "no memory for a graph node");
		core_graph_register(definition, node, handle, type);
	}
	*ret_node = node;
	return VG_OK;
}

// ---- all nodes ----------------------------------------------------------------------------------

enum vg_status core_graph_node_check(const struct vg_graph_node *node, const char *name)
{
	if (!node)
		return vg_fail(VG_INVALID, 0, "%s is NULL", name);
	if (!node->handle && !atomic_load(&node->definition->root->object.closed))
		return vg_fail(VG_CLOSED, 0, "the graph node has been removed");
	return core_graph_check(node->definition, name);
}

const char *core_graph_type_name(CUgraphNodeType type)
{
	static const char *const names[] = {
		"kernel",
		"memcpy",
		"memset",
		"host",
		"child graph",
		"empty",
		"event wait",
		"event record",
		"semaphore signal",
		"semaphore wait",
		"allocation",
		"free",
		"batch memory operation",
		"conditional",
	};

	return (size_t)type < sizeof names / sizeof *names ? names[type] : "unknown";
}

enum vg_status core_graph_node_check_type(const struct vg_graph_node *node, CUgraphNodeType type)
{
	CORE_TRY(core_graph_node_check(node, "node"));
	if (node->type != type)
		return vg_fail(VG_INVALID, 0, "the graph node is of kind %s: this is for %s nodes",
			       core_graph_type_name(node->type), core_graph_type_name(type));
	return VG_OK;
}

enum vg_status core_graph_options(const struct vg_graph_definition *definition, void *copy, size_t size,
				  const void *options, const char *name)
{
	CORE_TRY(core_graph_check(definition, "definition"));
	if (!options)
		return vg_fail(VG_INVALID, 0, "%s is NULL", name);
	return vg_options_copy(copy, size, options);
}

int vg_graph_node_type(const struct vg_graph_node *node)
{
	return node ? (int)node->type : -1;
}

struct vg_graph_definition *vg_graph_node_definition(const struct vg_graph_node *node)
{
	return node ? node->definition : NULL;
}

struct CUgraphNode_st *vg_graph_node_handle(const struct vg_graph_node *node)
{
	return node && vg_graph_definition_handle(node->definition) ? node->handle : NULL;
}

int vg_graph_node_is_valid(const struct vg_graph_node *node)
{
	return vg_graph_node_handle(node) != NULL;
}

// ---- removing -----------------------------------------------------------------------------------

static void drop_definition(struct vg_graph_definition *definition)
{
	definition->handle = NULL;
	for (size_t i = 0; i < definition->bucket_count; i++) {
		for (struct vg_graph_node *node = definition->buckets[i]; node; node = node->next) {
			core_graph_node_drop(node);
			node->handle = NULL;
		}
	}
}

void core_graph_node_drop(struct vg_graph_node *node)
{
	for (unsigned i = 0; i < node->inner_count; i++)
		drop_definition(node->inner[i]);
	if (!node->definition->root->copied)
		core_graph_keep_detach(node->keep, node->definition->root->handle);
	node->keep = NULL;
}

// Returns whether a builder captures into a graph inside the node. The driver would crash if the node were removed.
static bool has_capture(const struct vg_graph_node *node)
{
	for (unsigned i = 0; i < node->inner_count; i++) {
		const struct vg_graph_definition *inner = node->inner[i];
		if (inner->capturing)
			return true;
		for (size_t k = 0; k < inner->bucket_count; k++)
			for (const struct vg_graph_node *one = inner->buckets[k]; one; one = one->next)
				if (has_capture(one))
					return true;
	}
	return false;
}

// Returns why the driver cannot remove a node of the definition; "" if the reason is unknown.
static const char *explain_removal(struct vg_graph_definition *definition)
{
	const char *reason = "";
	size_t count;

	if (vg_graph_definition_nodes(definition, NULL, 0, &count))
		return reason;
	struct vg_graph_node **nodes = calloc(count + 1, sizeof *nodes);
	if (nodes && count && vg_graph_definition_nodes(definition, nodes, count, &count) == VG_OK)
		for (size_t i = 0; i < count; i++)
			if (nodes[i]->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
			    nodes[i]->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
				reason = "the graph has allocation or free nodes, and the driver removes no node of "
					 "such a "
					 "graph: build a graph definition without the node";
	free(nodes);
	return reason;
}

enum vg_status vg_graph_node_remove(struct vg_graph_node *node)
{
	VG_ENTRY();
	CORE_NEEDED(node);
	if (!vg_graph_node_is_valid(node))
		return VG_OK;
	if (node->definition->root->captures && has_capture(node))
		return vg_fail(VG_STATE, 0, "a graph builder captures into a graph of the node: end it first");
	struct vg_graph_definition *definition = node->definition;
	CORE_ENTER(scope, definition->context->handle);
	CUresult r = core_driver->cuGraphDestroyNode(node->handle);
	if (r)
		return core_driver_failed(r, "cuGraphDestroyNode", "%s", explain_removal(definition));
	struct vg_graph_node **link = &definition->buckets[bucket_of(definition, node->handle)];
	while (*link != node)
		link = &(*link)->next;
	*link = node->next;
	definition->node_count--;
	// Keep the object in a list, since the program may still have pointers to it.
	node->next = definition->removed;
	definition->removed = node;
	node->handle = NULL;
	core_graph_node_drop(node);
	core_graph_keep_drain();
	return VG_OK;
}
