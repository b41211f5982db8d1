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
 * not destroyed with the resource. If it would give all freed memory back at each synchronisation (release threshold
 * 0), it is told to keep it. INVALID, UNSUPPORTED (no pools), NO_MEMORY, DRIVER. Any thread. Source:
 * cuDeviceGetMemPool. */
VG_PUBLIC enum vg_status vg_device_pool_current(struct vg_device *device, struct vg_memory_resource **ret_pool);

struct vg_device_pool_options {
	size_t size;	 /* sizeof(struct vg_device_pool_options) */
	int shareable;	 /* nonzero: other processes can import it, by descriptor */
	size_t max_size; /* bytes; 0: the device's memory */
};
/* A new pool. `options` may be NULL. The caller owns *ret_pool. INVALID, UNSUPPORTED (no pools, or not shareable ones),
 * NO_MEMORY, DRIVER. Any thread. Source: cuMemPoolCreate. */
VG_PUBLIC enum vg_status vg_device_pool_create(struct vg_device *device, const struct vg_device_pool_options *options,
					       struct vg_memory_resource **ret_pool);

/* ---- of pinned host memory ------------------------------------------------------------------------ */

/* The host's current pool, shared with everybody in the process. `device` is given access to it. UNSUPPORTED (the
 * driver is older than 13.0, or the device has no such pools), and as above. Any thread. Source: cuMemGetMemPool. */
VG_PUBLIC enum vg_status vg_pinned_pool_current(struct vg_device *device, struct vg_memory_resource **ret_pool);

struct vg_pinned_pool_options {
	size_t size;	 /* sizeof(struct vg_pinned_pool_options) */
	int shareable;	 /* nonzero: other processes can import it; needs a node, the device's own if none is named */
	size_t max_size; /* bytes; 0: the driver's choice */
	struct vg_memory_location location; /* NONE or HOST: any node; HOST_NUMA: node `id` */
};
/* A new pool, which `device` can reach. */
VG_PUBLIC enum vg_status vg_pinned_pool_create(struct vg_device *device, const struct vg_pinned_pool_options *options,
					       struct vg_memory_resource **ret_pool);

/* ---- of managed memory ---------------------------------------------------------------------------- */

/* The current pool of managed memory that prefers no place. Where the device and the host cannot use managed memory at
 * the same time, the log gets one warning. UNSUPPORTED (the driver is older than 13.0), and as above. */
VG_PUBLIC enum vg_status vg_managed_pool_current(struct vg_device *device, struct vg_memory_resource **ret_pool);

/* As the node of VG_LOCATION_HOST_NUMA: the one next to the device. */
#define VG_NODE_OF_DEVICE (-1)

struct vg_managed_pool_options {
	size_t size; /* sizeof(struct vg_managed_pool_options) */
	/* NONE: nowhere; DEVICE: device `id`; HOST: any node, id must be 0; HOST_NUMA: node `id` or VG_NODE_OF_DEVICE.
	 */
	struct vg_memory_location preferred_location;
};
/* A new pool, as vg_device_pool_create(). */
VG_PUBLIC enum vg_status vg_managed_pool_create(struct vg_device *device, const struct vg_managed_pool_options *options,
						struct vg_memory_resource **ret_pool);

/* ---- any pool -------------------------------------------------------------------------------------- */

/* NULL once closed, and for what is not a pool. */
VG_PUBLIC struct CUmemPoolHandle_st *vg_memory_pool_handle(const struct vg_memory_resource *pool);
/* Nonzero: destroyed with the resource; 0: current pools. */
VG_PUBLIC int vg_memory_pool_is_owned(const struct vg_memory_resource *pool);
/* Nonzero: other processes can import it. */
VG_PUBLIC int vg_memory_pool_is_shareable(const struct vg_memory_resource *pool);
/* Nonzero: imported from another process. */
VG_PUBLIC int vg_memory_pool_is_mapped(const struct vg_memory_resource *pool);
/* Where its memory is, or for managed memory prefers to be. INVALID (not a pool), CLOSED. */
VG_PUBLIC enum vg_status vg_memory_pool_location(const struct vg_memory_resource *pool,
						 struct vg_memory_location *ret_location);

/* What the driver says now. */
struct vg_memory_pool_attributes {
	int reuse_follow_event_dependencies; /* nonzero: memory freed on one stream is used on another after an event */
	int reuse_allow_opportunistic;	     /* nonzero: ... or when the free happens to be done */
	int reuse_allow_internal_dependencies; /* nonzero: ... or by making one stream wait for the other */
	uint64_t release_threshold;	       /* bytes that are kept at a synchronisation */
	uint64_t reserved_mem_current, reserved_mem_high; /* bytes that the pool holds, and held at most */
	uint64_t used_mem_current, used_mem_high;	  /* bytes in buffers, and the most there were */
};
/* INVALID (not a pool), CLOSED, STATE (imported: its own process can ask), DRIVER. Any thread. Source:
 * cuMemPoolGetAttribute. */
VG_PUBLIC enum vg_status vg_memory_pool_attributes(const struct vg_memory_resource *pool,
						   struct vg_memory_pool_attributes *ret_attributes);

/* ---- who else reaches it ------------------------------------------------------------------------------ */

/* The other devices that can use the pool's memory, as the driver says now, in ascending order: pools are shared, and
 * others may change it. *ret_count is how many there are; with `capacity` 0, `ret_peers` may be NULL, and only the
 * count is told. LIMIT if there are more than `capacity`; nothing is written then. INVALID (not a pool of a device or
 * of pinned memory), CLOSED, NO_MEMORY, DRIVER. Any thread. Source: cuMemPoolGetAccess. */
VG_PUBLIC enum vg_status vg_memory_pool_peers(const struct vg_memory_resource *pool, struct vg_device **ret_peers,
					      size_t capacity, size_t *ret_count);
/* These devices and no others; also these; not these. The pool's own device may be among them and stays. One call of
 * the driver each, none where nothing changes. INVALID (a device that cannot access the pool's, and nothing
 * is changed), CLOSED, NO_MEMORY, DRIVER. Any thread. Source: cuMemPoolSetAccess. */
VG_PUBLIC enum vg_status vg_memory_pool_set_peers(struct vg_memory_resource *pool, struct vg_device *const *peers,
						  size_t count);
VG_PUBLIC enum vg_status vg_memory_pool_add_peers(struct vg_memory_resource *pool, struct vg_device *const *peers,
						  size_t count);
VG_PUBLIC enum vg_status vg_memory_pool_remove_peers(struct vg_memory_resource *pool, struct vg_device *const *peers,
						     size_t count);

/* ---- between processes ---------------------------------------------------------------------------------- */

/* A descriptor of a shareable pool, which the caller owns and closes; it goes to the other process over a
 * socket (SCM_RIGHTS). INVALID, STATE (not shareable, or imported itself), CLOSED, DRIVER. Any thread. Source:
 * cuMemPoolExportToShareableHandle. */
VG_PUBLIC enum vg_status vg_memory_pool_export(struct vg_memory_resource *pool, int *ret_descriptor);
/* A pool of another process, by a descriptor that stays the caller's. Buffers of it are imported, not allocated.
 * `device` is given access to pinned memory. INVALID (also: no pool's descriptor), NO_MEMORY, DRIVER. Any thread.
 * Source: cuMemPoolImportFromShareableHandle. */
VG_PUBLIC enum vg_status vg_device_pool_import(struct vg_device *device, int descriptor,
					       struct vg_memory_resource **ret_pool);
VG_PUBLIC enum vg_status vg_pinned_pool_import(struct vg_device *device, int descriptor,
					       struct vg_memory_resource **ret_pool);

/* The identity of a shareable pool, random; of an imported one: as registered. STATE (it has none), CLOSED. */
VG_PUBLIC enum vg_status vg_memory_pool_uuid(const struct vg_memory_resource *pool, unsigned char ret_uuid[16]);
/* So that a process imports each pool once: makes an imported pool known by its exporter's UUID until it is closed, and
 * gives it back; or the one that is known already. The caller owns a reference to *ret_pool, and keeps that to `pool`.
 * INVALID (not a shareable pool, or one with another UUID), CLOSED, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_memory_pool_register(struct vg_memory_resource *pool, const unsigned char uuid[16],
						 struct vg_memory_resource **ret_pool);
/* NOT_FOUND. The caller owns a reference to *ret_pool. Any thread. */
VG_PUBLIC enum vg_status vg_memory_pool_find(const unsigned char uuid[16], struct vg_memory_resource **ret_pool);

/* A buffer of a shareable pool in another process's words: sent as these bytes. */
struct vg_buffer_descriptor {
	uint64_t size; /* of the buffer */
	unsigned char payload[64];
};
/* INVALID (empty, or not of a pool), STATE (the pool is not shareable), CLOSED, DRIVER. Any thread. Source:
 * cuMemPoolExportPointer. */
VG_PUBLIC enum vg_status vg_buffer_export(const struct vg_buffer *buffer, struct vg_buffer_descriptor *ret_descriptor);
/* The buffer in a pool that was imported, freed on `stream`; the exporter's buffer must live until that is done.
 * Importing one twice gives two buffers of one address. `descriptor_size` is how many bytes came. INVALID (fewer than a
 * descriptor has; more than the buffer has are claimed), STATE (the pool is not imported), CLOSED, NO_MEMORY, DRIVER.
 * Any thread. Source: cuMemPoolImportPointer. */
VG_PUBLIC enum vg_status vg_buffer_import(struct vg_memory_resource *pool,
					  const struct vg_buffer_descriptor *descriptor, size_t descriptor_size,
					  struct vg_stream *stream, struct vg_buffer **ret_buffer);

#ifdef __cplusplus
}
#endif
#endif
