/* Memory pools of the driver, as memory resources: of a device, of pinned host memory, of managed memory.
 *
 * Buffers come and go in the order of a stream, and freed memory is kept for the next one. On a
 * capturing stream pools refuse: the graph memory resource is for that. */
#ifndef VIRGATE_MEMORY_POOL_H
#define VIRGATE_MEMORY_POOL_H

#include <virgate/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- of a device ---------------------------------------------------------------------------------- */

/* The pool that the device uses now, the driver's own or what somebody set: shared with everybody in the process, and
 * not destroyed with the resource. If it would give all freed memory back at each synchronisation (release threshold 0), it
 * is told to keep it. INVALID, UNSUPPORTED (no pools), NO_MEMORY, DRIVER. Any thread. Source: cuDeviceGetMemPool. */
VG_PUBLIC enum vg_status vg_device_pool_current(struct vg_device *device, struct vg_memory_resource **ret_pool);

struct vg_device_pool_options {
	size_t size;	 /* sizeof(struct vg_device_pool_options) */
	int shareable;	 /* nonzero: other processes can import it, by descriptor */
	size_t max_size; /* bytes; 0: the device's memory */
};
/* A new pool. `options` may be NULL. The caller owns *ret_pool. INVALID, UNSUPPORTED (no pools, or not shareable),
 * NO_MEMORY, DRIVER. Any thread. Source: cuMemPoolCreate. */
VG_PUBLIC enum vg_status vg_device_pool_create(struct vg_device *device, const struct vg_device_pool_options *options,
					       struct vg_memory_resource **ret_pool);

/* ---- any pool -------------------------------------------------------------------------------------- */

/* NULL once closed, and for what is not a pool. */
VG_PUBLIC struct CUmemPoolHandle_st *vg_memory_pool_handle(const struct vg_memory_resource *pool);
/* Nonzero: destroyed with the resource; 0: current pools. */
VG_PUBLIC int vg_memory_pool_is_owned(const struct vg_memory_resource *pool);

#ifdef __cplusplus
}
#endif
#endif
