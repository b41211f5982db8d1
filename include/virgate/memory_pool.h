/* Memory pools of the driver, as memory resources: of a device, of pinned host memory, of managed memory.
 *
 * Buffers are allocated and freed in the order of a stream, and the pool keeps freed memory for the next one. Pools
 * refuse a capturing stream: use the graph memory resource. */
#ifndef VIRGATE_MEMORY_POOL_H
#define VIRGATE_MEMORY_POOL_H

#include <virgate/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- of a device ---------------------------------------------------------------------------------- */

/* Returns the device's current pool, the driver's default or the one that the program set. The whole process uses it,
 * and it is not destroyed with the resource. If its release threshold is 0, which frees all memory at each
 * synchronisation, sets it to the maximum. INVALID, UNSUPPORTED (no pools), NO_MEMORY, DRIVER. Any thread. Source:
 * cuDeviceGetMemPool. */
VG_PUBLIC enum vg_status vg_device_pool_current(struct vg_device *device, struct vg_memory_resource **ret_pool);

struct vg_device_pool_options {
	size_t size;	 /* sizeof(struct vg_device_pool_options) */
	int shareable;	 /* nonzero: other processes can import the pool by descriptor */
	size_t max_size; /* bytes; 0: the device's memory */
};
/* Creates a pool. `options` may be NULL. The caller owns *ret_pool. INVALID, UNSUPPORTED (no pools, or not shareable
 * ones), NO_MEMORY, DRIVER. Any thread. Source: cuMemPoolCreate. */
VG_PUBLIC enum vg_status vg_device_pool_create(struct vg_device *device, const struct vg_device_pool_options *options,
					       struct vg_memory_resource **ret_pool);

/* ---- of pinned host memory ------------------------------------------------------------------------ */

/* Returns the host's current pool, which the whole process uses, and gives `device` access to it. UNSUPPORTED (the
 * driver is older than 13.0, or the device has no such pools), and as above. Any thread. Source: cuMemGetMemPool. */
VG_PUBLIC enum vg_status vg_pinned_pool_current(struct vg_device *device, struct vg_memory_resource **ret_pool);

struct vg_pinned_pool_options {
	size_t size; /* sizeof(struct vg_pinned_pool_options) */
	/* Nonzero: other processes can import the pool; needs a NUMA node, by default that of the device. */
	int shareable;
	size_t max_size;		    /* bytes; 0: the driver's choice */
	struct vg_memory_location location; /* NONE or HOST: any NUMA node; HOST_NUMA: node `id` */
};
/* Creates a pool that `device` can access. */
VG_PUBLIC enum vg_status vg_pinned_pool_create(struct vg_device *device, const struct vg_pinned_pool_options *options,
					       struct vg_memory_resource **ret_pool);

/* ---- of managed memory ---------------------------------------------------------------------------- */

/* Returns the current pool of managed memory without a preferred location. Writes one warning to the log if the
 * device and the host cannot use managed memory at the same time. UNSUPPORTED (the driver is older than 13.0), and as
 * above. */
VG_PUBLIC enum vg_status vg_managed_pool_current(struct vg_device *device, struct vg_memory_resource **ret_pool);

/* A value for the `id` of VG_LOCATION_HOST_NUMA: the NUMA node of the device. */
#define VG_NODE_OF_DEVICE (-1)

struct vg_managed_pool_options {
	size_t size; /* sizeof(struct vg_managed_pool_options) */
	/* NONE: no preferred location; DEVICE: device `id`; HOST: any node, id must be 0; HOST_NUMA: node `id` or
	 * VG_NODE_OF_DEVICE. */
	struct vg_memory_location preferred_location;
};
/* Creates a pool, like vg_device_pool_create(). */
VG_PUBLIC enum vg_status vg_managed_pool_create(struct vg_device *device, const struct vg_managed_pool_options *options,
						struct vg_memory_resource **ret_pool);

/* ---- any pool -------------------------------------------------------------------------------------- */

/* Returns the driver's handle of a pool; NULL for a closed pool and for other resources. */
VG_PUBLIC struct CUmemPoolHandle_st *vg_memory_pool_handle(const struct vg_memory_resource *pool);
/* Returns nonzero if the pool is destroyed with the resource; 0 for current pools. */
VG_PUBLIC int vg_memory_pool_is_owned(const struct vg_memory_resource *pool);
/* Returns nonzero if other processes can import the pool. */
VG_PUBLIC int vg_memory_pool_is_shareable(const struct vg_memory_resource *pool);
/* Returns nonzero if the pool was imported from another process. */
VG_PUBLIC int vg_memory_pool_is_mapped(const struct vg_memory_resource *pool);
/* Returns the location of the pool's memory; for managed memory, the preferred location. INVALID (not a pool),
 * CLOSED. */
VG_PUBLIC enum vg_status vg_memory_pool_location(const struct vg_memory_resource *pool,
						 struct vg_memory_location *ret_location);

/* The driver's attributes of a pool. */
struct vg_memory_pool_attributes {
	int reuse_follow_event_dependencies; /* nonzero: memory freed on one stream is used on another after an event */
	int reuse_allow_opportunistic;	     /* nonzero: memory may also be reused if its free has already completed */
	/* Nonzero: memory may also be reused by making one stream wait for the other. */
	int reuse_allow_internal_dependencies;
	/* Bytes of free memory that the pool keeps at a synchronisation. */
	uint64_t release_threshold;
	uint64_t reserved_mem_current, reserved_mem_high; /* bytes of the pool, and their maximum */
	uint64_t used_mem_current, used_mem_high;	  /* bytes in buffers, and their maximum */
};
/* Reads the attributes. INVALID (not a pool), CLOSED, STATE (imported: only its own process can), DRIVER. Any thread.
 * Source: cuMemPoolGetAttribute. */
VG_PUBLIC enum vg_status vg_memory_pool_attributes(const struct vg_memory_resource *pool,
						   struct vg_memory_pool_attributes *ret_attributes);

/* ---- access of other devices -------------------------------------------------------------------------- */

/* Lists the other devices that can access the pool's memory, in ascending order. Other users of the pool may change
 * this. *ret_count is their number; with `capacity` 0, `ret_peers` may be NULL, and only the count is returned. LIMIT
 * if there are more than `capacity`; nothing is written then. INVALID (not a pool of a device or of pinned memory),
 * CLOSED, NO_MEMORY, DRIVER. Any thread. Source: cuMemPoolGetAccess. */
VG_PUBLIC enum vg_status vg_memory_pool_peers(const struct vg_memory_resource *pool, struct vg_device **ret_peers,
					      size_t capacity, size_t *ret_count);
/* These functions give access to these devices only, give it to these devices too, or remove it from them. The pool's
 * own device may be listed and keeps its access. Each makes one driver call, or none if nothing changes. INVALID (a
 * device that cannot access the pool's device: nothing is changed), CLOSED, NO_MEMORY, DRIVER. Any thread. Source:
 * cuMemPoolSetAccess. */
VG_PUBLIC enum vg_status vg_memory_pool_set_peers(struct vg_memory_resource *pool, struct vg_device *const *peers,
						  size_t count);
VG_PUBLIC enum vg_status vg_memory_pool_add_peers(struct vg_memory_resource *pool, struct vg_device *const *peers,
						  size_t count);
VG_PUBLIC enum vg_status vg_memory_pool_remove_peers(struct vg_memory_resource *pool, struct vg_device *const *peers,
						     size_t count);

/* ---- between processes ---------------------------------------------------------------------------------- */

/* Returns a descriptor of a shareable pool, which the caller owns and closes, to be sent to another process over a
 * socket (SCM_RIGHTS). INVALID, STATE (not shareable, or imported itself), CLOSED, DRIVER. Any thread. Source:
 * cuMemPoolExportToShareableHandle. */
VG_PUBLIC enum vg_status vg_memory_pool_export(struct vg_memory_resource *pool, int *ret_descriptor);
/* Imports a pool of another process. The caller keeps the descriptor. Buffers of it are imported, not allocated. Gives
 * `device` access to pinned memory. INVALID (also for a descriptor of something else), NO_MEMORY, DRIVER. Any thread.
 * Source: cuMemPoolImportFromShareableHandle. */
VG_PUBLIC enum vg_status vg_device_pool_import(struct vg_device *device, int descriptor,
					       struct vg_memory_resource **ret_pool);
VG_PUBLIC enum vg_status vg_pinned_pool_import(struct vg_device *device, int descriptor,
					       struct vg_memory_resource **ret_pool);

/* Returns the UUID of a shareable pool, which is random; for an imported pool, the UUID with which it was
 * registered. STATE (the pool has no UUID), CLOSED. */
VG_PUBLIC enum vg_status vg_memory_pool_uuid(const struct vg_memory_resource *pool, unsigned char ret_uuid[16]);
/* Registers an imported pool under its exporter's UUID until it is closed, so that a process imports each pool once.
 * *ret_pool is `pool`, or the pool that is registered already. The caller owns a reference to *ret_pool, and keeps that
 * to `pool`.
 * INVALID (not a shareable pool, or one with another UUID), CLOSED, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_memory_pool_register(struct vg_memory_resource *pool, const unsigned char uuid[16],
						 struct vg_memory_resource **ret_pool);
/* Finds a registered pool. NOT_FOUND. The caller owns a reference to *ret_pool. Any thread. */
VG_PUBLIC enum vg_status vg_memory_pool_find(const unsigned char uuid[16], struct vg_memory_resource **ret_pool);

/* An exported buffer of a shareable pool: bytes to be sent to another process. */
struct vg_buffer_descriptor {
	uint64_t size; /* size of the buffer */
	unsigned char payload[64];
};
/* Exports the buffer. INVALID (empty, or not of a pool), STATE (the pool is not shareable), CLOSED, DRIVER. Any thread.
 * Source: cuMemPoolExportPointer. */
VG_PUBLIC enum vg_status vg_buffer_export(const struct vg_buffer *buffer, struct vg_buffer_descriptor *ret_descriptor);
/* Imports a buffer of an imported pool. It is freed on `stream`; the exporter's buffer must exist until then.
 * Importing one twice gives two buffers of one address. `descriptor_size` is the number of bytes received. INVALID
 * (too few bytes; the descriptor claims more memory than the buffer has), STATE (the pool is not imported), CLOSED,
 * NO_MEMORY, DRIVER. Any thread. Source: cuMemPoolImportPointer. */
VG_PUBLIC enum vg_status vg_buffer_import(struct vg_memory_resource *pool,
					  const struct vg_buffer_descriptor *descriptor, size_t descriptor_size,
					  struct vg_stream *stream, struct vg_buffer **ret_buffer);

#ifdef __cplusplus
}
#endif
#endif
