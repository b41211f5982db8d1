/* Contexts: each has memory, streams and code on one device.
 *
 * No call needs a current context: every object uses its own, and restores the thread's current context.
 * vg_context_set_current() is for other libraries. */
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

/* Returns the device's primary context, the one that the CUDA runtime uses. It exists as long as it is
 * retained. The caller owns *ret_context and ends it with vg_context_destroy(). INVALID, NO_MEMORY, DRIVER. Any
 * thread. Source: cuDevicePrimaryCtxRetain. */
VG_PUBLIC enum vg_status vg_context_primary(struct vg_device *device, struct vg_context **ret_context);
/* Drops the caller's reference; objects that were created in the context keep it alive. Accepts NULL. Any thread. */
VG_PUBLIC void vg_context_destroy(struct vg_context *context);

struct vg_context_options {
	size_t size;				 /* sizeof(struct vg_context_options) */
	struct vg_sm_resource *const *sms;	 /* SMs for this context: groups of one device without common SMs */
	size_t sm_count;			 /* number of `sms` */
	struct vg_workqueue_resource *workqueue; /* NULL: the driver's default */
};

/* Creates a green context: the device's primary context with some of the device's resources, which must be given. Its
 * streams run on its SMs; it has the memory and the code of the primary context. Resources may be destroyed afterwards.
 * INVALID (no resources; resources of a dry run or of another device), NO_MEMORY, DRIVER. Any thread. Source:
 * cuDevResourceGenerateDesc, cuGreenCtxCreate. */
VG_PUBLIC enum vg_status vg_context_create(struct vg_device *device, const struct vg_context_options *options,
					   struct vg_context **ret_context);
/* Wraps a context that the program created itself. That context must outlive this object and the objects created with
 * it. INVALID or DRIVER for NULL and invalid contexts, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_context_borrow(struct CUctx_st *handle, struct vg_context **ret_context);
/* Closes the object: the program may not use it any more. The driver's context is destroyed with the last object
 * that was created in it. May be closed twice. STATE while it is current to the calling thread. DRIVER. */
VG_PUBLIC enum vg_status vg_context_close(struct vg_context *context);

/* Makes the context current to the calling thread, or none if `context` is NULL. *ret_previous is the handle of the
 * previous one, for vg_context_restore(); ret_previous may be NULL. A green context can be current to one thread
 * at a time. CLOSED, DRIVER. Allocates nothing. Source: cuCtxSetCurrent. */
VG_PUBLIC enum vg_status vg_context_set_current(struct vg_context *context, struct CUctx_st **ret_previous);
/* Makes the context current again that vg_context_set_current() replaced. DRIVER. */
VG_PUBLIC enum vg_status vg_context_restore(struct CUctx_st *previous);
/* Returns the calling thread's current context, or NULL. NO_DRIVER, DRIVER. Allocates nothing. Source:
 * cuCtxGetCurrent. */
VG_PUBLIC enum vg_status vg_context_current(struct CUctx_st **ret_handle);
/* Returns 1 if both objects are of the same driver context. Any thread. */
VG_PUBLIC int vg_context_equal(const struct vg_context *context, const struct vg_context *other);

/* Records the event after all work queued on all streams of the context, or makes all work queued later wait for the
 * event. CLOSED, INVALID, DRIVER. Any thread. Source: cuCtxRecordEvent, cuGreenCtxRecordEvent and the like. */
VG_PUBLIC enum vg_status vg_context_record(struct vg_context *context, struct vg_event *event);
VG_PUBLIC enum vg_status vg_context_wait_event(struct vg_context *context, struct vg_event *event);

/* Returns 1 for a green context, 0 for others and for NULL. */
VG_PUBLIC int vg_context_is_green(const struct vg_context *context);
/* Returns the context's device; NULL only if `context` is NULL. */
VG_PUBLIC struct vg_device *vg_context_device(const struct vg_context *context);
/* Returns the driver's handle; NULL for a closed context. Equal handles mean equal contexts. */
VG_PUBLIC struct CUctx_st *vg_context_handle(const struct vg_context *context);

#ifdef __cplusplus
}
#endif
#endif
