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

struct vg_event;
struct vg_stream;

struct vg_stream_options {
	size_t size;  /* sizeof(struct vg_stream_options) */
	int blocking; /* nonzero: this stream and the legacy default stream wait for each other */
	int priority; /* priority, in the device's range; lower numbers run first; 0: the lowest priority */
};

/* Creates a stream of a context. In a green context, the stream runs on the context's SMs, and cannot be blocking.
 * `options` may be NULL. The caller owns *ret_stream and ends it with vg_stream_destroy(). INVALID (priority out of
 * range), CLOSED, NO_MEMORY, DRIVER. Any thread. Source: cuStreamCreateWithPriority, cuGreenCtxStreamCreate. */
VG_PUBLIC enum vg_status vg_stream_create(struct vg_context *context, const struct vg_stream_options *options,
					  struct vg_stream **ret_stream);

enum vg_default_stream {
	VG_DEFAULT_STREAM_CHOSEN, /* per thread if VIRGATE_PER_THREAD_DEFAULT_STREAM is set and not 0, else legacy */
	VG_DEFAULT_STREAM_LEGACY, /* one stream for all threads; this stream and blocking streams wait for each other */
	VG_DEFAULT_STREAM_PER_THREAD, /* another stream for each thread that uses the object */
};

/* Creates an object for a default stream of an ordinary context. The driver's stream is never destroyed. The caller
 * owns the object. INVALID (a green context: its default stream exists only while the context is current), CLOSED,
 * NO_MEMORY, DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_stream_default(struct vg_context *context, enum vg_default_stream which,
					   struct vg_stream **ret_stream);
/* Wraps a stream that the program created itself, which this object never destroys, with the stream's context.
 * `release`, unless NULL, is called with `owner` when the object is freed; not if this fails. INVALID (a default
 * stream's handle: vg_stream_default()), NO_MEMORY, DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_stream_borrow(struct CUstream_st *handle, void *owner, void (*release)(void *owner),
					  struct vg_stream **ret_stream);

/* Drops the caller's reference; work that was queued completes. Accepts NULL. Any thread. */
VG_PUBLIC void vg_stream_destroy(struct vg_stream *stream);
/* Closes the object: the program may not use it any more. May be closed twice. DRIVER: the driver did not destroy
 * it. */
VG_PUBLIC enum vg_status vg_stream_close(struct vg_stream *stream);

/* Waits until all work queued so far is done. CLOSED, DRIVER (also for the error of an
 * earlier kernel). Any thread. Source: cuStreamSynchronize. */
VG_PUBLIC enum vg_status vg_stream_sync(struct vg_stream *stream);
/* Queries the stream: 1 if all work queued so far is done, else 0. CLOSED, DRIVER. Any thread; allocates nothing.
 * Source: cuStreamQuery. */
VG_PUBLIC enum vg_status vg_stream_query(struct vg_stream *stream, int *ret_done);
/* Makes work queued later wait for the event, or for all work queued on `other` now. Both may be of other contexts and
 * devices. CLOSED, DRIVER. Any thread. Source: cuStreamWaitEvent. */
VG_PUBLIC enum vg_status vg_stream_wait_event(struct vg_stream *stream, struct vg_event *event);
VG_PUBLIC enum vg_status vg_stream_wait_stream(struct vg_stream *stream, struct vg_stream *other);

/* These functions return whether the stream is blocking, and its priority; 0 for NULL. */
VG_PUBLIC int vg_stream_is_blocking(const struct vg_stream *stream);
VG_PUBLIC int vg_stream_priority(const struct vg_stream *stream);
/* Returns the driver's handle, which is equal for equal streams of one context; NULL for a closed stream. */
VG_PUBLIC struct CUstream_st *vg_stream_handle(const struct vg_stream *stream);
/* These functions return the stream's context and device, which belong to the stream; NULL for NULL. */
VG_PUBLIC struct vg_context *vg_stream_context(const struct vg_stream *stream);
VG_PUBLIC struct vg_device *vg_stream_device(const struct vg_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
