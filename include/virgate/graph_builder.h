/* Graph builders: work queued on a stream becomes the nodes of a graph instead of running.
 *
 * A builder is new, then building, then ended. Work is queued on vg_graph_builder_stream(); streams that wait for it
 * take part too, and must be waited for before the end. Captured work does not keep buffers alive; kernels are kept
 * that were launched on a builder's own stream. Builders are for one thread at a time, together with those split off
 * and with the definition behind them. */
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

/* Which calls spoil a capture because they could not be part of it: the driver's values. */
enum vg_graph_capture_mode {
	VG_GRAPH_CAPTURE_GLOBAL = 0,	   /* any thread's, but for threads that chose otherwise */
	VG_GRAPH_CAPTURE_THREAD_LOCAL = 1, /* the capturing thread's */
	VG_GRAPH_CAPTURE_RELAXED = 2,	   /* none */
};

/* A builder on a new stream of the context, or on a stream of the program, which must not be the
 * legacy default stream. The caller owns *ret_builder and ends it with vg_graph_builder_destroy(). INVALID, CLOSED,
 * NO_MEMORY, DRIVER. Any thread. Source: cuStreamCreateWithPriority. */
VG_PUBLIC enum vg_status vg_graph_builder_create(struct vg_context *context, struct vg_graph_builder **ret_builder);
VG_PUBLIC enum vg_status vg_graph_builder_create_on(struct vg_stream *stream, struct vg_graph_builder **ret_builder);
/* Ends the builder; while it is building, what was captured is discarded. Twice is fine. INVALID for NULL. */
VG_PUBLIC enum vg_status vg_graph_builder_close(struct vg_graph_builder *builder);
/* Closes the builder and drops the caller's reference. NULL is fine. */
VG_PUBLIC void vg_graph_builder_destroy(struct vg_graph_builder *builder);

/* Begins the capture. INVALID for another mode; STATE if the builder is building already or has
 * ended; CLOSED, DRIVER. Source: cuStreamBeginCaptureToGraph. */
VG_PUBLIC enum vg_status vg_graph_builder_begin(struct vg_graph_builder *builder, enum vg_graph_capture_mode mode);
/* Whether it is building. STATE if something that cannot be captured has spoilt it: close it.
 * CLOSED, DRIVER. Source: cuStreamGetCaptureInfo. */
VG_PUBLIC enum vg_status vg_graph_builder_is_building(struct vg_graph_builder *builder, int *ret_building);
/* Ends the capture. STATE if the builder is not building, was split off, waits for builders that were, or if another
 * thread began it, in a mode that is not relaxed; CLOSED; DRIVER if the capture was spoilt: the builder has then no
 * graph. Source: cuStreamEndCapture. */
VG_PUBLIC enum vg_status vg_graph_builder_end(struct vg_graph_builder *builder);

/* The executable of an ended builder, as of its definition. STATE before that, and for others than the
 * builder that began. */
VG_PUBLIC enum vg_status vg_graph_builder_complete(struct vg_graph_builder *builder,
						   const struct vg_graph_options *options, struct vg_graph **ret_graph);

/* A host function that runs when the work before it is done. With `size` 0 it gets `data` itself; else a copy of
 * `size` bytes that lives as long as the graph and its executables. It must call nothing of CUDA and
 * nothing of this library. INVALID, STATE unless building, CLOSED, NO_MEMORY, DRIVER. Source: cuGraphAddNode. */
VG_PUBLIC enum vg_status vg_graph_builder_callback(struct vg_graph_builder *builder, void (*function)(void *data),
						   const void *data, size_t size);

/* Makes `count` builders of one, which capture independent work: ret_builders[0] is the builder itself, the
 * others are new, on streams of their own that go on from here; the caller owns them. INVALID (count below 2 or above
 * 4096), STATE unless building, CLOSED, NO_MEMORY, DRIVER; no builder is made then. One that is closed before it is
 * joined leaves the nodes in the graph that calls here added; work of its stream makes vg_graph_builder_end() answer
 * DRIVER. Source: cuStreamWaitEvent. */
VG_PUBLIC enum vg_status vg_graph_builder_split(struct vg_graph_builder *builder, unsigned count,
						struct vg_graph_builder **ret_builders);
/* The other way: what one of them captures next comes after all that they captured so far. That is the first that
 * was not split off, else the first; *ret_builder names it, and may be NULL. The others are closed, and the
 * caller still destroys them. INVALID (count below 2, one twice, of different captures), STATE unless all are building,
 * CLOSED, DRIVER; all are as before then. Source: cuStreamWaitEvent. */
VG_PUBLIC enum vg_status vg_graph_builder_join(struct vg_graph_builder *const *builders, size_t count,
					       struct vg_graph_builder **ret_builder);
/* Nonzero: split off and not joined yet. */
VG_PUBLIC int vg_graph_builder_is_join_required(const struct vg_graph_builder *builder);

/* A copy of another builder's graph, or of a definition, as one node. INVALID, STATE (the child has not ended; unless
 * building), UNSUPPORTED (nodes that cannot be embedded), CLOSED, NO_MEMORY, DRIVER. Source: cuGraphAddNode. */
VG_PUBLIC enum vg_status vg_graph_builder_embed(struct vg_graph_builder *builder, struct vg_graph_builder *child);
VG_PUBLIC enum vg_status vg_graph_builder_embed_definition(struct vg_graph_builder *builder,
							   struct vg_graph_definition *child);

/* A condition for a conditional node of the graph that is being captured; `options` may be NULL. STATE unless
 * building, CLOSED, NO_MEMORY, DRIVER. Source: cuGraphConditionalHandleCreate. */
VG_PUBLIC enum vg_status vg_graph_builder_create_condition(struct vg_graph_builder *builder,
							   const struct vg_graph_condition_options *options,
							   struct vg_graph_condition *ret_condition);
/* Conditional nodes, as vg_graph_add_if_then() and its neighbours, after what was captured so far. The bodies are
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

/* The definition behind an ended builder, or behind the builder of a body unless that is building. The caller owns
 * *ret_definition and ends it with vg_graph_definition_destroy(). STATE otherwise, and for builders that were split
 * off; CLOSED. */
VG_PUBLIC enum vg_status vg_graph_builder_definition(struct vg_graph_builder *builder,
						     struct vg_graph_definition **ret_definition);
/* As vg_graph_definition_dot(), of an ended builder. STATE, INVALID, CLOSED, DRIVER. */
VG_PUBLIC enum vg_status vg_graph_builder_dot(struct vg_graph_builder *builder, const char *path,
					      const struct vg_graph_dot_options *options);

/* Where work is queued to be captured. The builder holds it. NULL once closed. */
VG_PUBLIC struct vg_stream *vg_graph_builder_stream(const struct vg_graph_builder *builder);

#ifdef __cplusplus
}
#endif
#endif
