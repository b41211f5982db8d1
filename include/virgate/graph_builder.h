/* Graph builders: work queued on a stream becomes the nodes of a graph instead of running.
 *
 * A builder is new, then building, then ended. The program queues work on vg_graph_builder_stream(). Streams that wait
 * for that stream take part, too; the builder's stream must wait for them before the end. The graph keeps kernels that
 * were launched on a builder's own stream, but no buffers. One thread at a time may use a builder, the builders split
 * off from it and its definition. */
#ifndef VIRGATE_GRAPH_BUILDER_H
#define VIRGATE_GRAPH_BUILDER_H

#include <stddef.h>

#include <virgate/graph.h>
#include <virgate/graph_definition.h>
#include <virgate/status.h>
#include <virgate/stream.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_graph_builder;

/* Which threads' calls invalidate a capture if they cannot be captured; the driver's values. */
enum vg_graph_capture_mode {
	/* The capture restricts calls of all threads, except those that chose another mode. */
	VG_GRAPH_CAPTURE_GLOBAL = 0,
	VG_GRAPH_CAPTURE_THREAD_LOCAL = 1, /* the capture restricts the calls of the capturing thread only */
	VG_GRAPH_CAPTURE_RELAXED = 2,	   /* the capture restricts the calls of no thread */
};

/* Creates a builder on a new stream of the context, or on a stream of the program, which must not be the legacy default
 * stream. The caller owns *ret_builder and ends it with vg_graph_builder_destroy(). INVALID, CLOSED,
 * NO_MEMORY, DRIVER. Any thread. Source: cuStreamCreateWithPriority. */
VG_PUBLIC enum vg_status vg_graph_builder_create(struct vg_context *context, struct vg_graph_builder **ret_builder);
VG_PUBLIC enum vg_status vg_graph_builder_create_on(struct vg_stream *stream, struct vg_graph_builder **ret_builder);
/* Closes the builder; if it is building, the captured work is discarded. May be closed twice. INVALID for NULL. */
VG_PUBLIC enum vg_status vg_graph_builder_close(struct vg_graph_builder *builder);
/* Closes the builder and drops the caller's reference. Accepts NULL. */
VG_PUBLIC void vg_graph_builder_destroy(struct vg_graph_builder *builder);

/* Begins the capture. INVALID for another mode; STATE if the builder is building already or has
 * ended; CLOSED, DRIVER. Source: cuStreamBeginCaptureToGraph. */
VG_PUBLIC enum vg_status vg_graph_builder_begin(struct vg_graph_builder *builder, enum vg_graph_capture_mode mode);
/* Tells whether the builder is building. STATE if a call that cannot be captured has invalidated the capture: close
 * the builder. CLOSED, DRIVER. Source: cuStreamGetCaptureInfo. */
VG_PUBLIC enum vg_status vg_graph_builder_is_building(struct vg_graph_builder *builder, int *ret_building);
/* Ends the capture. STATE if the builder is not building, was split off, has builders that were split off and not
 * joined, or if another thread began the capture in a mode that is not relaxed. CLOSED. DRIVER if the capture was
 * invalidated: the builder then has no graph. Source: cuStreamEndCapture. */
VG_PUBLIC enum vg_status vg_graph_builder_end(struct vg_graph_builder *builder);

/* Creates an executable from an ended builder, as vg_graph_definition_instantiate() does. STATE before the end, and for
 * builders that were split off or fill a body. */
VG_PUBLIC enum vg_status vg_graph_builder_complete(struct vg_graph_builder *builder,
						   const struct vg_graph_options *options, struct vg_graph **ret_graph);

/* Adds a host function that runs when the work before it has finished. With `size` 0 it gets `data` itself, else a copy
 * of `size` bytes that lives as long as the graph and its executables. It must call neither CUDA nor this library.
 * INVALID, STATE unless building, CLOSED, NO_MEMORY, DRIVER. Source: cuGraphAddNode. */
VG_PUBLIC enum vg_status vg_graph_builder_callback(struct vg_graph_builder *builder, void (*function)(void *data),
						   const void *data, size_t size);

/* Splits a builder into `count` builders that capture independent work. ret_builders[0] is the builder itself; the
 * others are new, on streams of their own that continue from here, and the caller owns them. INVALID (count below 2 or
 * above 4096), STATE unless building, CLOSED, NO_MEMORY, DRIVER; no builder is created then. If a builder is closed
 * before it is joined, the nodes that functions of this header added stay in the graph, and work captured on its stream
 * makes vg_graph_builder_end() return DRIVER. Source: cuStreamWaitEvent. */
VG_PUBLIC enum vg_status vg_graph_builder_split(struct vg_graph_builder *builder, unsigned count,
						struct vg_graph_builder **ret_builders);
/* Joins builders. One of them continues, and its later work comes after all that the builders captured so far. This is
 * the first builder that was not split off, or else the first one; *ret_builder is this one, and ret_builder may be
 * NULL. The others are closed; the caller still destroys them. INVALID (count below 2, a builder twice, builders of
 * different captures), STATE unless all are building, CLOSED, DRIVER; all are unchanged then. Source:
 * cuStreamWaitEvent. */
VG_PUBLIC enum vg_status vg_graph_builder_join(struct vg_graph_builder *const *builders, size_t count,
					       struct vg_graph_builder **ret_builder);
/* Returns nonzero if the builder was split off and is not joined yet. */
VG_PUBLIC int vg_graph_builder_is_join_required(const struct vg_graph_builder *builder);

/* Adds a copy of another builder's graph, or of a definition, as one node. INVALID, STATE (the child has not ended, or
 * this builder is not building), UNSUPPORTED (nodes that cannot be embedded), CLOSED, NO_MEMORY, DRIVER. Source:
 * cuGraphAddNode. */
VG_PUBLIC enum vg_status vg_graph_builder_embed(struct vg_graph_builder *builder, struct vg_graph_builder *child);
VG_PUBLIC enum vg_status vg_graph_builder_embed_definition(struct vg_graph_builder *builder,
							   struct vg_graph_definition *child);

/* Creates a condition for a conditional node of the graph that is being captured. `options` may be NULL. STATE unless
 * building, CLOSED, NO_MEMORY, DRIVER. Source: cuGraphConditionalHandleCreate. */
VG_PUBLIC enum vg_status vg_graph_builder_create_condition(struct vg_graph_builder *builder,
							   const struct vg_graph_condition_options *options,
							   struct vg_graph_condition *ret_condition);
/* Adds a conditional node, as vg_graph_add_if_then() and its neighbours, after the work captured so far. The bodies are
 * builders on streams of their own, which the caller owns: begin and end each, or leave it empty, then go on. INVALID,
 * STATE unless building, CLOSED, NO_MEMORY, DRIVER. Source: cuGraphAddNode. */
VG_PUBLIC enum vg_status vg_graph_builder_if_then(struct vg_graph_builder *builder, struct vg_graph_condition condition,
						  struct vg_graph_builder **ret_then);
VG_PUBLIC enum vg_status vg_graph_builder_if_else(struct vg_graph_builder *builder, struct vg_graph_condition condition,
						  struct vg_graph_builder **ret_then,
						  struct vg_graph_builder **ret_else);
VG_PUBLIC enum vg_status vg_graph_builder_while_loop(struct vg_graph_builder *builder,
						     struct vg_graph_condition condition,
						     struct vg_graph_builder **ret_body);
/* Fills an array of `count` builders. */
VG_PUBLIC enum vg_status vg_graph_builder_switch(struct vg_graph_builder *builder, struct vg_graph_condition condition,
						 unsigned count, struct vg_graph_builder **ret_branches);

/* Returns the definition of an ended builder, or of a body's builder that is not building. The caller owns
 * *ret_definition and ends it with vg_graph_definition_destroy(). STATE for all other builders, and for those that
 * were split off; CLOSED. */
VG_PUBLIC enum vg_status vg_graph_builder_definition(struct vg_graph_builder *builder,
						     struct vg_graph_definition **ret_definition);
/* Writes the graph of an ended builder like vg_graph_definition_dot(). STATE, INVALID, CLOSED, DRIVER. */
VG_PUBLIC enum vg_status vg_graph_builder_dot(struct vg_graph_builder *builder, const char *path,
					      const struct vg_graph_dot_options *options);

/* Returns the stream whose work is captured, to which the builder owns the reference; NULL for a closed builder. */
VG_PUBLIC struct vg_stream *vg_graph_builder_stream(const struct vg_graph_builder *builder);

#ifdef __cplusplus
}
#endif
#endif
