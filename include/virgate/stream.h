/* Streams: queues of work on a device. */
#ifndef VIRGATE_STREAM_H
#define VIRGATE_STREAM_H

#include <stddef.h>

#include <virgate/context.h>
#include <virgate/cuda_handles.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_stream;

struct vg_stream_options {
	size_t size;  /* sizeof(struct vg_stream_options) */
	int blocking; /* nonzero: waits for and holds up the legacy default stream; 0: does not */
	int priority; /* in the device's range, lower numbers first; 0: the least */
};

/* A new stream of a context. `options` may be NULL. The caller owns *ret_stream and ends it with
 * vg_stream_destroy(). INVALID (priority out of range, says the range), CLOSED, NO_MEMORY, DRIVER. Any thread.
 * Source: cuStreamCreateWithPriority. */
VG_PUBLIC enum vg_status vg_stream_create(struct vg_context *context, const struct vg_stream_options *options,
					  struct vg_stream **ret_stream);
/* Drops the caller's reference; work that was queued completes. NULL is fine. Any thread. */
VG_PUBLIC void vg_stream_destroy(struct vg_stream *stream);

/* Waits until all work queued so far is done. CLOSED, DRIVER (also what an earlier kernel did
 * wrong). Any thread. Source: cuStreamSynchronize. */
VG_PUBLIC enum vg_status vg_stream_sync(struct vg_stream *stream);

/* The driver's handle; NULL once closed. */
VG_PUBLIC struct CUstream_st *vg_stream_handle(const struct vg_stream *stream);
VG_PUBLIC struct vg_context *vg_stream_context(const struct vg_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
