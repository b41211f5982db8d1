/* Kernels: entry functions of loaded object code. */
#ifndef VIRGATE_KERNEL_H
#define VIRGATE_KERNEL_H

#include <virgate/cuda_handles.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_kernel;

/* Drops the caller's reference. NULL is fine. Any thread. */
VG_PUBLIC void vg_kernel_destroy(struct vg_kernel *kernel);

#ifdef __cplusplus
}
#endif
#endif
