/* Nodes of graph definitions.
 *
 * Every vg_graph_add_… takes the nodes that the new one waits for: `after`, `count` of them, of the same definition and
 * each once; with count 0 the node is a root. *ret_node belongs to the definition; ret_node may be NULL. They answer
 * INVALID, CLOSED, NO_MEMORY or DRIVER, and leave the definition unchanged when they fail. Source: cuGraphAddNode. */
#ifndef VIRGATE_GRAPH_NODE_H
#define VIRGATE_GRAPH_NODE_H

#include <stddef.h>

#include <virgate/cuda_handles.h>
#include <virgate/graph_definition.h>
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

/* -1 for NULL. Also of a removed node. */
VG_PUBLIC int vg_graph_node_type(const struct vg_graph_node *node);
/* Never NULL for a node. */
VG_PUBLIC struct vg_graph_definition *vg_graph_node_definition(const struct vg_graph_node *node);
/* The driver's handle; NULL once removed, or when the definition was closed. */
VG_PUBLIC struct CUgraphNode_st *vg_graph_node_handle(const struct vg_graph_node *node);
/* 0 once removed, or when the definition was closed. */
VG_PUBLIC int vg_graph_node_is_valid(const struct vg_graph_node *node);
/* Takes the node with its edges out of the definition. Twice is fine. DRIVER (graphs with allocation
 * or free nodes lose no nodes; the node is unchanged then). Source: cuGraphDestroyNode. */
VG_PUBLIC enum vg_status vg_graph_node_remove(struct vg_graph_node *node);

/* A node that does nothing: what comes after it waits for all that it waits for. */
VG_PUBLIC enum vg_status vg_graph_add_empty(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
					    size_t count, struct vg_graph_node **ret_node);

/* `height` rows of `width` elements, each set to `value`. */
struct vg_graph_memset {
	size_t size; /* sizeof(struct vg_graph_memset) */
	vg_address destination;
	unsigned value;	       /* must fit in an element */
	unsigned element_size; /* bytes: 1, 2 or 4; 0 counts as 1 */
	size_t width;	       /* elements of a row */
	size_t height;	       /* rows; 0 counts as 1 */
	size_t pitch;	       /* bytes from row to row; of no meaning for one row */
	struct vg_buffer *destination_buffer; /* not NULL: kept alive by the node */
};
VG_PUBLIC enum vg_status vg_graph_add_memset(struct vg_graph_definition *definition, struct vg_graph_node *const *after,
					     size_t count, const struct vg_graph_memset *memset,
					     struct vg_graph_node **ret_node);

#ifdef __cplusplus
}
#endif
#endif
