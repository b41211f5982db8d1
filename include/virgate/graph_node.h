/* Nodes of graph definitions.
 *
 * Every vg_graph_add_… takes the nodes that the new node waits for: `after` has `count` nodes of the same definition,
 * each once; with count 0 the node is a root. *ret_node belongs to the definition; ret_node may be NULL. These
 * functions answer INVALID, CLOSED, NO_MEMORY or DRIVER, and leave the definition unchanged when they fail. Source:
 * cuGraphAddNode. */
#ifndef VIRGATE_GRAPH_NODE_H
#define VIRGATE_GRAPH_NODE_H

#include <stddef.h>

#include <virgate/cuda_handles.h>
#include <virgate/device.h>
#include <virgate/event.h>
#include <virgate/graph_definition.h>
#include <virgate/kernel.h>
#include <virgate/launch.h>
#include <virgate/memory.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The driver's values of CUgraphNodeType. */
enum vg_graph_node_type {
	VG_GRAPH_NODE_KERNEL = 0,
	VG_GRAPH_NODE_MEMCPY = 1,
	VG_GRAPH_NODE_MEMSET = 2,
	VG_GRAPH_NODE_HOST = 3,
	VG_GRAPH_NODE_CHILD = 4,
	VG_GRAPH_NODE_EMPTY = 5,
	VG_GRAPH_NODE_EVENT_WAIT = 6,
	VG_GRAPH_NODE_EVENT_RECORD = 7,
	VG_GRAPH_NODE_SEMAPHORE_SIGNAL = 8,
	VG_GRAPH_NODE_SEMAPHORE_WAIT = 9,
	VG_GRAPH_NODE_ALLOCATION = 10,
	VG_GRAPH_NODE_FREE = 11,
	VG_GRAPH_NODE_BATCH_MEMORY_OPERATION = 12,
	VG_GRAPH_NODE_CONDITIONAL = 13,
};

/* Returns the node's type, even of a removed node; -1 for NULL. */
VG_PUBLIC int vg_graph_node_type(const struct vg_graph_node *node);
/* Returns the definition to which the node belongs; not NULL. */
VG_PUBLIC struct vg_graph_definition *vg_graph_node_definition(const struct vg_graph_node *node);
/* Returns the driver's handle; NULL if the node was removed or its definition closed. */
VG_PUBLIC struct CUgraphNode_st *vg_graph_node_handle(const struct vg_graph_node *node);
/* Returns 0 if the node was removed or its definition closed. */
VG_PUBLIC int vg_graph_node_is_valid(const struct vg_graph_node *node);
/* Removes the node with its edges from the definition. May be called twice. STATE while a builder fills a body of
 * it; DRIVER (the driver removes no node of a graph with allocation or free nodes: the text says so, and the node is
 * unchanged). Source: cuGraphDestroyNode. */
VG_PUBLIC enum vg_status vg_graph_node_remove(struct vg_graph_node *node);

/* Adds a node that does nothing: nodes after it wait for all the nodes that it waits for. */
VG_PUBLIC enum vg_status vg_graph_add_empty(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
					    size_t count, struct vg_graph_node **ret_node);

/* ---- what a node does, when it is made and afterwards ------------------------------------------- */
/* vg_graph_node_set_… changes a node for executables made later. INVALID (also for a node of another kind), CLOSED,
 * NO_MEMORY, DRIVER; the node is unchanged then. Source: cuGraphNodeSetParams. graph.h has the functions that change an
 * executable. vg_graph_node_get_… reads back from the driver. INVALID, CLOSED, DRIVER. */

/* Parameters of a memset: `height` rows of `width` elements are set to `value`. */
struct vg_graph_memset {
	size_t size; /* sizeof(struct vg_graph_memset) */
	vg_address destination;
	unsigned value;			      /* must fit in an element */
	unsigned element_size;		      /* bytes: 1, 2 or 4; 0 counts as 1 */
	size_t width;			      /* elements of a row */
	size_t height;			      /* rows; 0 counts as 1 */
	size_t pitch;			      /* bytes from row to row; ignored for one row */
	struct vg_buffer *destination_buffer; /* NULL, or a buffer that the node keeps */
};
VG_PUBLIC enum vg_status vg_graph_add_memset(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
					     size_t count, const struct vg_graph_memset *memset,
					     struct vg_graph_node **ret_node);
VG_PUBLIC enum vg_status vg_graph_node_set_memset(struct vg_graph_node *node, const struct vg_graph_memset *memset);
/* Reads the parameters. destination_buffer: the buffer that the node keeps, or NULL. */
VG_PUBLIC enum vg_status vg_graph_node_get_memset(const struct vg_graph_node *node, struct vg_graph_memset *ret_memset);

/* A copy of bytes between addresses on a device or the host. The library asks the driver which; an address that the
 * driver does not know belongs to the host. */
struct vg_graph_memcpy {
	size_t size; /* sizeof(struct vg_graph_memcpy) */
	vg_address destination;
	vg_address source;
	size_t bytes;
	struct vg_buffer *destination_buffer; /* NULL, or a buffer that the node keeps */
	struct vg_buffer *source_buffer;      /* NULL, or a buffer that the node keeps */
};
VG_PUBLIC enum vg_status vg_graph_add_memcpy(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
					     size_t count, const struct vg_graph_memcpy *memcpy,
					     struct vg_graph_node **ret_node);
VG_PUBLIC enum vg_status vg_graph_node_set_memcpy(struct vg_graph_node *node, const struct vg_graph_memcpy *memcpy);
VG_PUBLIC enum vg_status vg_graph_node_get_memcpy(const struct vg_graph_node *node, struct vg_graph_memcpy *ret_memcpy);

/* A launch, checked as by vg_launch(). The values of the arguments are copied. */
struct vg_graph_kernel {
	size_t size;			       /* sizeof(struct vg_graph_kernel) */
	struct vg_kernel *kernel;	       /* the kernel, which the node keeps */
	const struct vg_launch_config *config; /* programmatic_stream_serialization is refused: a graph has edges */
	const struct vg_argument *arguments;
	size_t argument_count;
};
/* Adds or changes a kernel node. LIMIT and UNSUPPORTED as vg_launch(). */
VG_PUBLIC enum vg_status vg_graph_add_kernel(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
					     size_t count, const struct vg_graph_kernel *kernel,
					     struct vg_graph_node **ret_node);
VG_PUBLIC enum vg_status vg_graph_node_set_kernel(struct vg_graph_node *node, const struct vg_graph_kernel *kernel);
/* Reads the kernel of a kernel node. *ret_kernel is NULL if the node came from a capture; *ret_handle is the driver's
 * kernel, or NULL if the driver knows only a function. Either output may be NULL. */
VG_PUBLIC enum vg_status vg_graph_node_get_kernel(const struct vg_graph_node *node, struct vg_kernel **ret_kernel,
						  struct CUkern_st **ret_handle);
/* Reads dimensions, cluster, shared memory and `cooperative`, but no attributes. */
VG_PUBLIC enum vg_status vg_graph_node_get_launch_config(const struct vg_graph_node *node,
							 struct vg_launch_config *ret_config);

/* Adds or changes a host function, as in vg_graph_builder_callback(): with `size` 0, the function gets `data` itself,
 * else a copy. */
VG_PUBLIC enum vg_status vg_graph_add_callback(struct vg_graph_definition *definition,
					       struct vg_graph_node *const *after, size_t count,
					       void (*function)(void *data), const void *data, size_t size,
					       struct vg_graph_node **ret_node);
VG_PUBLIC enum vg_status vg_graph_node_set_callback(struct vg_graph_node *node, void (*function)(void *data),
						    const void *data, size_t size);
/* Reads the function and its data, or the copy of the data. Either output may be NULL. */
VG_PUBLIC enum vg_status vg_graph_node_get_callback(const struct vg_graph_node *node, void (**ret_function)(void *data),
						    void **ret_data);

/* Records the event, or waits for it, each time the graph runs. The node keeps the event. */
VG_PUBLIC enum vg_status vg_graph_add_event_record(struct vg_graph_definition *definition,
						   struct vg_graph_node *const *after, size_t count,
						   struct vg_event *event, struct vg_graph_node **ret_node);
VG_PUBLIC enum vg_status vg_graph_add_event_wait(struct vg_graph_definition *definition,
						 struct vg_graph_node *const *after, size_t count,
						 struct vg_event *event, struct vg_graph_node **ret_node);
VG_PUBLIC enum vg_status vg_graph_node_set_event(struct vg_graph_node *node, struct vg_event *event);
/* Reads the event of an event node. *ret_event is NULL if the node came from a capture. Either output may be NULL. */
VG_PUBLIC enum vg_status vg_graph_node_get_event(const struct vg_graph_node *node, struct vg_event **ret_event,
						 struct CUevent_st **ret_handle);

/* ---- memory of the graph ------------------------------------------------------------------------ */

enum vg_graph_memory_type {
	VG_GRAPH_MEMORY_DEVICE = 0,
	VG_GRAPH_MEMORY_HOST,
	VG_GRAPH_MEMORY_MANAGED, /* needs driver 13.0 */
};
struct vg_graph_allocation {
	size_t size; /* sizeof(struct vg_graph_allocation) */
	size_t bytes;
	enum vg_graph_memory_type type;
	struct vg_device *device;	/* NULL: the definition's; ignored for host memory */
	struct vg_device *const *peers; /* other devices that may read and write the memory */
	size_t peer_count;
};
/* Adds a node that allocates memory. The memory exists from this node's run until a free node or the program frees it,
 * or until the next launch with auto_free_on_launch. Its address is fixed from now on. No node of a graph with such
 * nodes can be removed, and the graph can be neither embedded nor instantiated a second time while an executable of it
 * exists. UNSUPPORTED: graphs have no host memory with drivers up to 13.0. */
VG_PUBLIC enum vg_status vg_graph_add_allocation(struct vg_graph_definition *definition,
						 struct vg_graph_node *const *after, size_t count,
						 const struct vg_graph_allocation *allocation, vg_address *ret_address,
						 struct vg_graph_node **ret_node);
/* Reads the parameters; `peers` is NULL, and peer_count is the number of peers. `device` is NULL for host memory. */
VG_PUBLIC enum vg_status vg_graph_node_get_allocation(const struct vg_graph_node *node,
						      struct vg_graph_allocation *ret_allocation,
						      vg_address *ret_address);
/* Lists the peers like vg_graph_definition_nodes() lists nodes. */
VG_PUBLIC enum vg_status vg_graph_node_get_peers(const struct vg_graph_node *node, struct vg_device **peers,
						 size_t capacity, size_t *ret_count);
/* Adds a node that frees the memory of an allocation node, of this graph or of one that ran before. */
VG_PUBLIC enum vg_status vg_graph_add_free(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
					   size_t count, vg_address address, struct vg_graph_node **ret_node);
VG_PUBLIC enum vg_status vg_graph_node_get_free(const struct vg_graph_node *node, vg_address *ret_address);

/* ---- graphs in graphs --------------------------------------------------------------------------- */

/* Adds a node that runs a copy of `child`, as it is now. UNSUPPORTED if `child` has allocation, free or conditional
 * nodes, or is itself the child or the body of a node. */
VG_PUBLIC enum vg_status vg_graph_add_child(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
					    size_t count, struct vg_graph_definition *child,
					    struct vg_graph_node **ret_node);
/* Returns the node's copy of the child graph, which belongs to the node. NO_MEMORY. */
VG_PUBLIC enum vg_status vg_graph_node_get_child(struct vg_graph_node *node, struct vg_graph_definition **ret_child);

/* The driver's values. */
enum vg_graph_conditional_type {
	VG_GRAPH_IF = 0,
	VG_GRAPH_WHILE = 1,
	VG_GRAPH_SWITCH = 2,
};
/* These functions add a node that reads a condition of its own definition; INVALID for a condition of another
 * definition. if_then runs the body if the condition is not 0; if_else runs one body or the other. while_loop repeats
 * the body while the condition is not 0. switch runs the body with the condition's number, of up to 65536 bodies, or
 * none. vg_graph_node_get_body() returns the bodies, to be filled with kernels, memset, memcpy and empty nodes, child
 * graphs and further conditional nodes. */
VG_PUBLIC enum vg_status vg_graph_add_if_then(struct vg_graph_definition *definition,
					      struct vg_graph_node *const *after, size_t count,
					      struct vg_graph_condition condition, struct vg_graph_node **ret_node);
VG_PUBLIC enum vg_status vg_graph_add_if_else(struct vg_graph_definition *definition,
					      struct vg_graph_node *const *after, size_t count,
					      struct vg_graph_condition condition, struct vg_graph_node **ret_node);
VG_PUBLIC enum vg_status vg_graph_add_while_loop(struct vg_graph_definition *definition,
						 struct vg_graph_node *const *after, size_t count,
						 struct vg_graph_condition condition, struct vg_graph_node **ret_node);
VG_PUBLIC enum vg_status vg_graph_add_switch(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
					     size_t count, struct vg_graph_condition condition, unsigned branches,
					     struct vg_graph_node **ret_node);
/* Reads the condition, the type and the number of bodies of a conditional node that this library created. UNSUPPORTED
 * for others, because the driver does not report them. Outputs may be NULL. */
VG_PUBLIC enum vg_status vg_graph_node_get_conditional(const struct vg_graph_node *node,
						       struct vg_graph_condition *ret_condition,
						       enum vg_graph_conditional_type *ret_type,
						       unsigned *ret_branches);
/* Returns a body of a conditional node, counted from 0. Body 0 of an if-else runs if the condition is not 0. The
 * body belongs to the node. UNSUPPORTED as above. */
VG_PUBLIC enum vg_status vg_graph_node_get_body(struct vg_graph_node *node, unsigned branch,
						struct vg_graph_definition **ret_body);

/* ---- edges -------------------------------------------------------------------------------------- */

/* These functions list the nodes for which this node waits, and the nodes that wait for it, as they are now.
 * Otherwise like vg_graph_definition_nodes(). Source: cuGraphNodeGetDependencies, cuGraphNodeGetDependentNodes. */
VG_PUBLIC enum vg_status vg_graph_node_predecessors(const struct vg_graph_node *node, struct vg_graph_node **nodes,
						    size_t capacity, size_t *ret_count);
VG_PUBLIC enum vg_status vg_graph_node_successors(const struct vg_graph_node *node, struct vg_graph_node **nodes,
						  size_t capacity, size_t *ret_count);
/* These functions add or remove an edge. Adding an existing edge and removing a missing one succeed. INVALID (from a
 * node to itself, between definitions), CLOSED, NO_MEMORY, DRIVER. Source: cuGraphAddDependencies,
 * cuGraphRemoveDependencies. */
VG_PUBLIC enum vg_status vg_graph_edge_add(struct vg_graph_node *from, struct vg_graph_node *to);
VG_PUBLIC enum vg_status vg_graph_edge_remove(struct vg_graph_node *from, struct vg_graph_node *to);
/* Replaces all predecessors or successors of the node; `count` 0 removes them. On failure they are unchanged. */
VG_PUBLIC enum vg_status vg_graph_node_set_predecessors(struct vg_graph_node *node, struct vg_graph_node *const *nodes,
							size_t count);
VG_PUBLIC enum vg_status vg_graph_node_set_successors(struct vg_graph_node *node, struct vg_graph_node *const *nodes,
						      size_t count);

#ifdef __cplusplus
}
#endif
#endif
