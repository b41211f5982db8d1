/* Executable graphs: launched as often as wanted, at the cost of one launch. */
#ifndef VIRGATE_GRAPH_H
#define VIRGATE_GRAPH_H

#include <stddef.h>

#include <virgate/cuda_handles.h>
#include <virgate/graph_definition.h>
#include <virgate/status.h>
#include <virgate/stream.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_graph;

struct vg_graph_options {
	size_t size;		 /* sizeof(struct vg_graph_options) */
	int auto_free_on_launch; /* nonzero: memory that the last launch left allocated is freed by the next */
	int device_launch;	 /* nonzero: kernels can launch it */
	int use_node_priority;	 /* nonzero: nodes run at their own priorities, not the stream's */
	struct vg_stream *upload_stream; /* not NULL: uploaded there at once */
};

/* An executable graph, which needs neither the definition nor its nodes any more. `options` may be
 * NULL. The caller owns *ret_graph and ends it with vg_graph_destroy(). INVALID for a body or child graph;
 * STATE while the definition is being captured; CLOSED, NO_MEMORY; DRIVER, with what is wrong with the graph in words. Source:
 * cuGraphInstantiateWithParams. */
VG_PUBLIC enum vg_status vg_graph_definition_instantiate(struct vg_graph_definition *definition,
							 const struct vg_graph_options *options,
							 struct vg_graph **ret_graph);
/* Ends the executable; launches in flight complete. Twice is fine. DRIVER. Source: cuGraphExecDestroy. */
VG_PUBLIC enum vg_status vg_graph_close(struct vg_graph *graph);
/* Drops the caller's reference. NULL is fine. */
VG_PUBLIC void vg_graph_destroy(struct vg_graph *graph);

/* Queues one run of the graph. It starts when the stream's earlier work is done, and this graph's own
 * earlier launches are. CLOSED, DRIVER. One thread at a time per graph. Source: cuGraphLaunch. */
VG_PUBLIC enum vg_status vg_graph_launch(struct vg_graph *graph, struct vg_stream *stream);
/* Does ahead of the first launch what it would have to do. CLOSED, DRIVER. Source: cuGraphUpload. */
VG_PUBLIC enum vg_status vg_graph_upload(struct vg_graph *graph, struct vg_stream *stream);

/* The driver's handle; NULL once closed. */
VG_PUBLIC struct CUgraphExec_st *vg_graph_handle(const struct vg_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
