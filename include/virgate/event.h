/* Events: marks in a stream, to wait for and to measure time. */
#ifndef VIRGATE_EVENT_H
#define VIRGATE_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/context.h>
#include <virgate/cuda_handles.h>
#include <virgate/status.h>
#include <virgate/stream.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_event;

struct vg_event_options {
	size_t size;	   /* sizeof(struct vg_event_options) */
	int timing;	   /* nonzero: vg_event_elapsed() can use the event; 0: the event costs less */
	int blocking_sync; /* nonzero: vg_event_sync() sleeps; 0: it polls */
	int ipc;	   /* nonzero: for other processes, vg_event_export(); not with timing */
};

/* Creates an event of a context, not recorded yet. `options` may be NULL. vg_stream_record() creates events for other
 * processes, since these are recorded once. The caller owns *ret_event and ends it with vg_event_destroy().
 * INVALID, CLOSED, NO_MEMORY, DRIVER. Any thread. Source: cuEventCreate. */
VG_PUBLIC enum vg_status vg_event_create(struct vg_context *context, const struct vg_event_options *options,
					 struct vg_event **ret_event);
/* Creates an event and records it on the stream, like vg_event_create() and vg_event_record(). */
VG_PUBLIC enum vg_status vg_stream_record(struct vg_stream *stream, const struct vg_event_options *options,
					  struct vg_event **ret_event);
/* Drops the caller's reference. Accepts NULL. Any thread. */
VG_PUBLIC void vg_event_destroy(struct vg_event *event);
/* Closes the object: the program may not use it any more. May be closed twice. DRIVER: the driver did not destroy
 * it. */
VG_PUBLIC enum vg_status vg_event_close(struct vg_event *event);

/* Records the event: it completes with all work queued on the stream so far. It may be recorded again. INVALID (another
 * context's stream, or an event for other processes, which is recorded once), CLOSED, DRIVER. Any
 * thread; allocates nothing. Source: cuEventRecord. */
VG_PUBLIC enum vg_status vg_event_record(struct vg_event *event, struct vg_stream *stream);
/* Queries the event: 1 if the work before its record is done, or the event was never recorded; else 0. CLOSED,
 * DRIVER (also for the error of an earlier kernel). Any thread; allocates nothing. Source: cuEventQuery. */
VG_PUBLIC enum vg_status vg_event_query(struct vg_event *event, int *ret_done);
/* Waits for the work before the event's record. CLOSED, DRIVER. Any thread. Source: cuEventSynchronize. */
VG_PUBLIC enum vg_status vg_event_sync(struct vg_event *event);
/* Measures the milliseconds from `start` to `end`; negative if they completed in the other order. INVALID (an event
 * without timing, or events of different contexts), STATE (an event was never recorded, or is being captured into a
 * graph), NOT_READY (an event has not completed), CLOSED, DRIVER. Any thread. Source: cuEventElapsedTime. */
VG_PUBLIC enum vg_status vg_event_elapsed(struct vg_event *start, struct vg_event *end, float *ret_milliseconds);

/* An exported event: plain bytes that another process on this machine can import while the event exists. */
struct vg_event_descriptor {
	unsigned char handle[64];
	uint32_t blocking_sync;
};
/* Exports the event. INVALID (created without .ipc), CLOSED, DRIVER. Any thread. Source: cuIpcGetEventHandle. */
VG_PUBLIC enum vg_status vg_event_export(struct vg_event *event, struct vg_event_descriptor *ret_descriptor);
/* Imports another process's event, to wait for it. `size` is the number of bytes received. The caller owns
 * *ret_event. INVALID (too few bytes), CLOSED, NO_MEMORY, DRIVER. Any thread. Source: cuIpcOpenEventHandle. */
VG_PUBLIC enum vg_status vg_event_import(struct vg_context *context, const void *descriptor, size_t size,
					 struct vg_event **ret_event);

/* These functions return 1 if the event measures time, if threads sleep while they wait for it, and if it is for
 * other processes; 0 for NULL. */
VG_PUBLIC int vg_event_has_timing(const struct vg_event *event);
VG_PUBLIC int vg_event_is_blocking_sync(const struct vg_event *event);
VG_PUBLIC int vg_event_is_ipc(const struct vg_event *event);
/* These functions return the event's context and device, which belong to the event; NULL for NULL. */
VG_PUBLIC struct vg_context *vg_event_context(const struct vg_event *event);
VG_PUBLIC struct vg_device *vg_event_device(const struct vg_event *event);
/* Returns the driver's handle, which is equal for equal events; NULL for a closed event. */
VG_PUBLIC struct CUevent_st *vg_event_handle(const struct vg_event *event);

#ifdef __cplusplus
}
#endif
#endif
