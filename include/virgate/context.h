/* Contexts: where a device's memory, streams and code live.
 *
 * No call needs a context to be current: every object uses its own, and leaves the thread's current
 * context as it found it. vg_context_set_current() is there for other libraries' sake. */
#ifndef VIRGATE_CONTEXT_H
#define VIRGATE_CONTEXT_H

#include <stddef.h>

#include <virgate/cuda_handles.h>
#include <virgate/device.h>
#include <virgate/device_resource.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_context;
struct vg_event;

/* The device's primary context, the one that the CUDA runtime uses; it exists while anybody holds
 * it. The caller owns *ret_context and ends it with vg_context_destroy(). INVALID, NO_MEMORY, DRIVER. Any
 * thread. Source: cuDevicePrimaryCtxRetain. */
VG_PUBLIC enum vg_status vg_context_primary(struct vg_device *device, struct vg_context **ret_context);
/* Drops the caller's reference; what was made in the context keeps it alive. NULL is fine. Any thread. */
VG_PUBLIC void vg_context_destroy(struct vg_context *context);

struct vg_context_options {
	size_t size;				 /* sizeof(struct vg_context_options) */
	struct vg_sm_resource *const *sms;	 /* SMs for it alone: groups of one device that share no SM */
	size_t sm_count;			 /* how many resources those are */
	struct vg_workqueue_resource *workqueue; /* NULL: the driver's default */
};

/* A green context: the device's primary context, confined to some of the device's resources, which are needed.
 * Streams of it run on its SMs; memory and code are shared with the primary context. Resources may be destroyed
 * afterwards. INVALID (no resources, of a dry run, of another device), NO_MEMORY, DRIVER. Any
 * thread. Source: cuDevResourceGenerateDesc, cuGreenCtxCreate. */
VG_PUBLIC enum vg_status vg_context_create(struct vg_device *device, const struct vg_context_options *options,
					   struct vg_context **ret_context);
/* An object for a context that somebody else made, and destroys after this object and what was made with it. NULL and
 * contexts that do not exist are INVALID or DRIVER. NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_context_borrow(struct CUctx_st *handle, struct vg_context **ret_context);
/* No further use; the driver's context goes once nothing that was made in it is left. Twice is fine. STATE while it is
 * current to the calling thread. DRIVER. */
VG_PUBLIC enum vg_status vg_context_close(struct vg_context *context);

/* Makes the context current to the calling thread in the place of the one that is (NULL: none then), whose
 * handle is *ret_previous unless that is NULL: for vg_context_restore(). A green context may be current to one thread
 * at a time. CLOSED, DRIVER. Allocates nothing. Source: cuCtxSetCurrent. */
VG_PUBLIC enum vg_status vg_context_set_current(struct vg_context *context, struct CUctx_st **ret_previous);
/* Back to what vg_context_set_current() replaced. DRIVER. */
VG_PUBLIC enum vg_status vg_context_restore(struct CUctx_st *previous);
/* What is current to the calling thread: NULL for nothing. NO_DRIVER, DRIVER. Allocates nothing. Source:
 * cuCtxGetCurrent. */
VG_PUBLIC enum vg_status vg_context_current(struct CUctx_st **ret_handle);
/* 1 if both stand for the same context of the driver. Any thread. */
VG_PUBLIC int vg_context_equal(const struct vg_context *context, const struct vg_context *other);

/* The event stands for all work queued in the context, in whatever stream; all work queued in it later waits for
 * the event. CLOSED, INVALID, DRIVER. Any thread. Source: cuCtxRecordEvent, cuGreenCtxRecordEvent and the like. */
VG_PUBLIC enum vg_status vg_context_record(struct vg_context *context, struct vg_event *event);
VG_PUBLIC enum vg_status vg_context_wait_event(struct vg_context *context, struct vg_event *event);

/* 1 for a green context, 0 for others and for NULL. */
VG_PUBLIC int vg_context_is_green(const struct vg_context *context);
/* Never NULL for a context. */
VG_PUBLIC struct vg_device *vg_context_device(const struct vg_context *context);
/* The driver's handle; NULL once closed. Equal handles are equal contexts. */
VG_PUBLIC struct CUctx_st *vg_context_handle(const struct vg_context *context);

#ifdef __cplusplus
}
#endif
#endif
