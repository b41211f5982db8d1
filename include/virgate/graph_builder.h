/* Graph builders: work queued on a stream becomes the nodes of a graph instead of running.
 *
 * A builder is new, then building, then ended. Work is queued on vg_graph_builder_stream(). Captured
 * work does not keep buffers alive. Builders are for one thread at a time, together with those
 * split off and with the definition behind them. */
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

/* A builder on a new stream of the context, or on a stream of the program, which must not be a
 * default stream. The caller owns *ret_builder and ends it with vg_graph_builder_destroy(). INVALID, CLOSED, NO_MEMORY,
 * DRIVER. Any thread. Source: cuStreamCreateWithPriority. */
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
/* Ends the capture. STATE if the builder is not building, was split off, or waits for builders that
 * were; CLOSED; DRIVER if the capture was spoilt: the builder has then no graph. Source: cuStreamEndCapture. */
VG_PUBLIC enum vg_status vg_graph_builder_end(struct vg_graph_builder *builder);

/* The executable of an ended builder, as of its definition. STATE before that, and for others than the
 * builder that began. */
VG_PUBLIC enum vg_status vg_graph_builder_complete(struct vg_graph_builder *builder, const struct vg_graph_options *options,
						   struct vg_graph **ret_graph);

/* A host function that runs when the work before it is done. With `size` 0 it gets `data` itself; else a copy of
 * `size` bytes that lives as long as the graph and its executables. It must call nothing of CUDA and
 * nothing of this library. INVALID, STATE unless building, CLOSED, NO_MEMORY, DRIVER. Source: cuGraphAddNode. */
VG_PUBLIC enum vg_status vg_graph_builder_callback(struct vg_graph_builder *builder, void (*function)(void *data),
						   const void *data, size_t size);

/* Where work is queued to be captured. The builder holds it. NULL once closed. */
VG_PUBLIC struct vg_stream *vg_graph_builder_stream(const struct vg_graph_builder *builder);

#ifdef __cplusplus
}
#endif
#endif
