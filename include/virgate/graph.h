/* Executable graphs: one call launches all nodes. */
#ifndef VIRGATE_GRAPH_H
#define VIRGATE_GRAPH_H

#include <stddef.h>

#include <virgate/cuda_handles.h>
#include <virgate/graph_definition.h>
#include <virgate/graph_node.h>
#include <virgate/status.h>
#include <virgate/stream.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_graph;
struct vg_graph_builder;

struct vg_graph_options {
	size_t size;			 /* sizeof(struct vg_graph_options) */
	int auto_free_on_launch;	 /* nonzero: each launch frees the memory that the last one left allocated */
	int device_launch;		 /* nonzero: kernels can launch the graph */
	int use_node_priority;		 /* nonzero: nodes run at their own priorities, not the stream's */
	struct vg_stream *upload_stream; /* not NULL: uploads the graph on this stream */
};

/* Creates an executable graph, which does not need the definition and its nodes any more. `options` may be
 * NULL. The caller owns *ret_graph and ends it with vg_graph_destroy(). INVALID for a body or child graph;
 * STATE while the definition is being captured; CLOSED, NO_MEMORY; DRIVER, with the reason in the text.
 * Source: cuGraphInstantiateWithParams. */
VG_PUBLIC enum vg_status vg_graph_definition_instantiate(struct vg_graph_definition *definition,
							 const struct vg_graph_options *options,
							 struct vg_graph **ret_graph);
/* Closes the executable; queued launches complete. May be closed twice. DRIVER. Source: cuGraphExecDestroy. */
VG_PUBLIC enum vg_status vg_graph_close(struct vg_graph *graph);
/* Drops the caller's reference. Accepts NULL. */
VG_PUBLIC void vg_graph_destroy(struct vg_graph *graph);

/* Queues one run of the graph. It starts after the earlier work of the stream and the earlier launches
 * of this graph. STATE if a graph builder captures the stream: embed the definition
 * (vg_graph_builder_embed_definition()). CLOSED, DRIVER. One thread at a time per graph. Source: cuGraphLaunch. */
VG_PUBLIC enum vg_status vg_graph_launch(struct vg_graph *graph, struct vg_stream *stream);
/* Prepares the first launch on the device, so that it starts faster. CLOSED, DRIVER. Source: cuGraphUpload. */
VG_PUBLIC enum vg_status vg_graph_upload(struct vg_graph *graph, struct vg_stream *stream);

/* Takes over the parameters of the nodes of `source`, which must have the same nodes and edges as the graph's
 * definition. STATE (the source is being captured), CLOSED; DRIVER with the reason: the graph is then unchanged.
 * Source: cuGraphExecUpdate. */
VG_PUBLIC enum vg_status vg_graph_update(struct vg_graph *graph, struct vg_graph_definition *source);
VG_PUBLIC enum vg_status vg_graph_update_from_builder(struct vg_graph *graph, struct vg_graph_builder *builder);

/* Changes the parameters of one node for later launches of this graph. `node` is of the graph's definition, which is
 * not changed. Objects that a queued launch uses are kept for it. INVALID, CLOSED, NO_MEMORY, DRIVER; the graph is
 * unchanged then. Source: cuGraphExecNodeSetParams. */
VG_PUBLIC enum vg_status vg_graph_set_memset(struct vg_graph *graph, struct vg_graph_node *node,
					     const struct vg_graph_memset *memset);
VG_PUBLIC enum vg_status vg_graph_set_memcpy(struct vg_graph *graph, struct vg_graph_node *node,
					     const struct vg_graph_memcpy *memcpy);
/* Changes the parameters of a kernel node in the same way. UNSUPPORTED if the cluster or `cooperative` would change. */
VG_PUBLIC enum vg_status vg_graph_set_kernel(struct vg_graph *graph, struct vg_graph_node *node,
					     const struct vg_graph_kernel *kernel);
VG_PUBLIC enum vg_status vg_graph_set_callback(struct vg_graph *graph, struct vg_graph_node *node,
					       void (*function)(void *data), const void *data, size_t size);
VG_PUBLIC enum vg_status vg_graph_set_event(struct vg_graph *graph, struct vg_graph_node *node, struct vg_event *event);
VG_PUBLIC enum vg_status vg_graph_set_child(struct vg_graph *graph, struct vg_graph_node *node,
					    struct vg_graph_definition *child);
/* These functions enable or disable a kernel, memset or memcpy node, and read whether it is enabled. A disabled node
 * does nothing. Source: cuGraphNodeSetEnabled. */
VG_PUBLIC enum vg_status vg_graph_set_enabled(struct vg_graph *graph, struct vg_graph_node *node, int enabled);
VG_PUBLIC enum vg_status vg_graph_is_enabled(struct vg_graph *graph, const struct vg_graph_node *node,
					     int *ret_enabled);

/* Returns the driver's handle; NULL for a closed graph. */
VG_PUBLIC struct CUgraphExec_st *vg_graph_handle(const struct vg_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
