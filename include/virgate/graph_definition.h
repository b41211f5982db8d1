/* Graph definitions: nodes and their order, before they become an executable graph.
 *
 * A definition owns its nodes, and with them the bodies of conditional nodes and the child graphs. Pointers to them are
 * valid until the definition is destroyed; calls answer CLOSED once the node has been removed. Only one thread at a
 * time may use a definition, as the driver's graphs. */
#ifndef VIRGATE_GRAPH_DEFINITION_H
#define VIRGATE_GRAPH_DEFINITION_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/context.h>
#include <virgate/cuda_handles.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_graph_definition;
struct vg_graph_node;

/* An edge: `to` starts when `from` has finished. */
struct vg_graph_edge {
	struct vg_graph_node *from, *to;
};

/* A word on the device that a conditional node reads and kernels set. A kernel takes it as an argument,
 * VG_ARGUMENTS(condition), and sets it by cudaGraphSetConditional(condition, value). Conditional nodes of another graph
 * definition refuse it. A kernel in another definition that sets it has no effect. */
struct vg_graph_condition {
	uint64_t handle; /* CUgraphConditionalHandle */
};

/* Creates an empty definition, whose nodes run in `context` unless they name another one. The caller owns
 * *ret_definition and ends it with vg_graph_definition_destroy(). INVALID, CLOSED, NO_MEMORY, DRIVER. Any thread.
 * Source: cuGraphCreate. */
VG_PUBLIC enum vg_status vg_graph_definition_create(struct vg_context *context,
						    struct vg_graph_definition **ret_definition);
/* Destroys the graph with its nodes. Executables made from it remain valid and keep what their nodes use. May be
 * closed twice. INVALID for NULL and for a body or a child graph, which is removed with its node; DRIVER. Source:
 * cuGraphDestroy. */
VG_PUBLIC enum vg_status vg_graph_definition_close(struct vg_graph_definition *definition);
/* Drops the caller's reference. Accepts NULL. */
VG_PUBLIC void vg_graph_definition_destroy(struct vg_graph_definition *definition);

/* Returns the driver's handle; NULL for a closed or removed definition. */
VG_PUBLIC struct CUgraph_st *vg_graph_definition_handle(const struct vg_graph_definition *definition);
VG_PUBLIC struct vg_context *vg_graph_definition_context(const struct vg_graph_definition *definition);

/* Lists all nodes, in no particular order. A node is always the same object, also one made by capture. *ret_count is
 * the number of nodes; with `capacity` 0, `nodes` may be NULL, and only the count is returned. LIMIT if there are more
 * than `capacity`; nothing is written then. CLOSED, NO_MEMORY, DRIVER. Source: cuGraphGetNodes. */
VG_PUBLIC enum vg_status vg_graph_definition_nodes(struct vg_graph_definition *definition, struct vg_graph_node **nodes,
						   size_t capacity, size_t *ret_count);
/* Lists all edges in the same way. Source: cuGraphGetEdges. */
VG_PUBLIC enum vg_status vg_graph_definition_edges(struct vg_graph_definition *definition, struct vg_graph_edge *edges,
						   size_t capacity, size_t *ret_count);

struct vg_graph_condition_options {
	size_t size;	    /* sizeof(struct vg_graph_condition_options) */
	int assign_default; /* nonzero: each launch starts with default_value; 0: with the last launch's value */
	unsigned default_value;
};

/* Creates a condition for one conditional node of this definition. The definition must have that node before it is
 * instantiated. `options` may be NULL. The condition lives as long as the graph. CLOSED, NO_MEMORY, DRIVER. Source:
 * cuGraphConditionalHandleCreate. */
VG_PUBLIC enum vg_status vg_graph_definition_create_condition(struct vg_graph_definition *definition,
							      const struct vg_graph_condition_options *options,
							      struct vg_graph_condition *ret_condition);

/* What the picture of a graph shows besides nodes and edges; each field is nonzero or 0. */
struct vg_graph_dot_options {
	size_t size; /* sizeof(struct vg_graph_dot_options) */
	int verbose; /* everything */
	int runtime_types;
	int kernel_node_parameters;
	int memcpy_node_parameters;
	int memset_node_parameters;
	int host_node_parameters;
	int event_node_parameters;
	int semaphore_signal_node_parameters;
	int semaphore_wait_node_parameters;
	int kernel_node_attributes;
	int handles;
	int allocation_node_parameters;
	int free_node_parameters;
	int batch_memory_operation_node_parameters;
	int extra_topology;
	int conditional_node_parameters;
};

/* Writes the graph to the file `path` in the language of Graphviz. `options` may be NULL. INVALID, CLOSED,
 * DRIVER (also for a path that cannot be written). Source: cuGraphDebugDotPrint. */
VG_PUBLIC enum vg_status vg_graph_definition_dot(struct vg_graph_definition *definition, const char *path,
						 const struct vg_graph_dot_options *options);

#ifdef __cplusplus
}
#endif
#endif
