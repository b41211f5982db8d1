/* Contexts: where a device's memory, streams and code live.
 *
 * No call needs a context to be current: every object uses its own, and leaves the thread's current
 * context as it found it. vg_context_set_current() is there for other libraries' sake. */
#ifndef VIRGATE_CONTEXT_H
#define VIRGATE_CONTEXT_H

#include <virgate/cuda_handles.h>
#include <virgate/device.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_context;

/* The device's primary context, the one that the CUDA runtime uses; it exists while anybody holds
 * it. The caller owns *ret_context and ends it with vg_context_destroy(). INVALID, NO_MEMORY, DRIVER. Any
 * thread. Source: cuDevicePrimaryCtxRetain. */
VG_PUBLIC enum vg_status vg_context_primary(struct vg_device *device, struct vg_context **ret_context);
/* Drops the caller's reference; what was made in the context keeps it alive. NULL is fine. Any thread. */
VG_PUBLIC void vg_context_destroy(struct vg_context *context);

/* Never NULL for a context. */
VG_PUBLIC struct vg_device *vg_context_device(const struct vg_context *context);
/* The driver's handle; NULL once closed. */
VG_PUBLIC struct CUctx_st *vg_context_handle(const struct vg_context *context);

#ifdef __cplusplus
}
#endif
#endif
