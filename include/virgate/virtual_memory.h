/* Virtual memory: physical memory, addresses, and the mappings between them, each an object of its own; and a
 * memory resource made of them, whose buffers can grow. */
#ifndef VIRGATE_VIRTUAL_MEMORY_H
#define VIRGATE_VIRTUAL_MEMORY_H

#include <virgate/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

enum vg_allocation_type { VG_ALLOCATION_PINNED, VG_ALLOCATION_MANAGED };
/* How other processes may be handed the memory. */
enum vg_handle_type {
	VG_HANDLE_DEFAULT, /* a descriptor, where the location permits it */
	VG_HANDLE_POSIX_FD,
	VG_HANDLE_FABRIC,
	VG_HANDLE_NONE,
	VG_HANDLE_WIN32,    /* refused: Windows' */
	VG_HANDLE_WIN32_KMT /* refused: Windows' */
};
enum vg_granularity { VG_GRANULARITY_RECOMMENDED, VG_GRANULARITY_MINIMUM };
enum vg_access { VG_ACCESS_READ_WRITE, VG_ACCESS_READ, VG_ACCESS_NONE /* of its own; what was set before stays */ };

/* All zero: pinned memory of the device, shareable by descriptor, that the device reads and writes. */
struct vg_virtual_memory_options {
	size_t size; /* sizeof(struct vg_virtual_memory_options) */
	enum vg_allocation_type allocation_type;
	struct vg_memory_location location; /* NONE or DEVICE: the device (id 0 or its own); HOST; HOST_NUMA: node `id`;
					     * HOST_NUMA_CURRENT: the node of the thread that allocates */
	enum vg_handle_type handle_type;
	enum vg_granularity granularity; /* sizes are multiples of it */
	int gpu_direct_rdma;		 /* nonzero: other hardware may reach the memory */
	vg_address address_hint;	 /* where to put it, if that is free; a multiple of granularity and alignment */
	size_t alignment;		 /* of addresses, a power of two; 0: the granularity */
	struct vg_device *const *peers;	 /* other devices that reach the memory; borrowed for the call */
	size_t peer_count;
	enum vg_access self_access; /* of the device, and of the host to memory at the host */
	enum vg_access peer_access;
};

/* ---- the memory resource ------------------------------------------------------------------------------ */

/* Its buffers are rounded up to the granularity, need no stream, and with one are freed after its work. `options` may
 * be NULL. The caller owns *ret_resource. INVALID (an option out of range, a peer that cannot access the device),
 * UNSUPPORTED (no virtual memory, GPU Direct RDMA or handle type on this device), NO_MEMORY, DRIVER. Any thread.
 * Sources: cuMemCreate, cuMemAddressReserve, cuMemMap, cuMemSetAccess. */
VG_PUBLIC enum vg_status vg_virtual_memory_resource_create(struct vg_device *device,
							   const struct vg_virtual_memory_options *options,
							   struct vg_memory_resource **ret_resource);
/* A larger buffer whose first part is the same memory as `buffer`: at the same address where the addresses behind it
 * are free, else at another one. `buffer` stays good at its own address until its owner destroys it, and the two may go
 * in any order. A `size` within the buffer gives another reference to it. `options` apply to this buffer: to the memory
 * that is added, and to the access to all of it; NULL: the resource's, and only what is added is given access. The
 * caller owns *ret_buffer. INVALID (not a buffer of such a resource; size 0; a granularity that the buffer's size is no
 * multiple of), CLOSED, NO_MEMORY, UNSUPPORTED, DRIVER; after a failure everything is as it was. Any thread. */
VG_PUBLIC enum vg_status vg_buffer_grow(struct vg_buffer *buffer, size_t size,
					const struct vg_virtual_memory_options *options, struct vg_buffer **ret_buffer);

/* ---- physical memory ------------------------------------------------------------------------------------ */

struct vg_physical_memory;

/* `size` bytes rounded up to the granularity, at no address yet. Of `options`, those about the memory count. The caller
 * owns *ret_memory. INVALID, UNSUPPORTED, NO_MEMORY, DRIVER. Any thread. Source: cuMemCreate. */
VG_PUBLIC enum vg_status vg_physical_memory_create(struct vg_device *device, size_t size,
						   const struct vg_virtual_memory_options *options,
						   struct vg_physical_memory **ret_memory);
/* A descriptor for another process, which the caller owns. STATE (made without that handle type), CLOSED, DRIVER. Any
 * thread. Source: cuMemExportToShareableHandle. */
VG_PUBLIC enum vg_status vg_physical_memory_export(struct vg_physical_memory *memory, int *ret_descriptor);
/* Of a descriptor that stays the caller's. `size` is what the exporter said: mapping fails if it is wrong. INVALID,
 * NO_MEMORY, DRIVER. Any thread. Source: cuMemImportFromShareableHandle. */
VG_PUBLIC enum vg_status vg_physical_memory_import(struct vg_device *device, int descriptor, size_t size,
						   struct vg_physical_memory **ret_memory);
/* Drops the caller's reference; mappings keep the memory. NULL is fine. Any thread. */
VG_PUBLIC void vg_physical_memory_destroy(struct vg_physical_memory *memory);
VG_PUBLIC enum vg_status vg_physical_memory_close(struct vg_physical_memory *memory);
/* Bytes; 0 once closed. */
VG_PUBLIC size_t vg_physical_memory_size(const struct vg_physical_memory *memory);

/* ---- addresses -------------------------------------------------------------------------------------------- */

struct vg_address_range;

/* `size` bytes of addresses, with nothing behind them. `alignment` 0: the driver's; `hint` 0: anywhere; the driver may
 * take another place. The caller owns *ret_range. INVALID (size 0, or not a multiple of 4 KiB; alignment not a power of
 * two), NO_MEMORY, DRIVER. Any thread. Source: cuMemAddressReserve. */
VG_PUBLIC enum vg_status vg_address_range_create(size_t size, size_t alignment, vg_address hint,
						 struct vg_address_range **ret_range);
/* Drops the caller's reference; mappings keep the addresses. NULL is fine. Any thread. */
VG_PUBLIC void vg_address_range_destroy(struct vg_address_range *range);
VG_PUBLIC enum vg_status vg_address_range_close(struct vg_address_range *range);
/* 0 once closed. */
VG_PUBLIC vg_address vg_address_range_address(const struct vg_address_range *range);
VG_PUBLIC size_t vg_address_range_size(const struct vg_address_range *range);

/* ---- mappings --------------------------------------------------------------------------------------------- */

struct vg_mapping;

/* All of the physical memory at `offset` of the range; the same memory may be mapped at several places. Nobody has
 * access yet. The caller owns *ret_mapping, which keeps both. INVALID (past the end), CLOSED, NO_MEMORY, DRIVER. Any
 * thread. Source: cuMemMap. */
VG_PUBLIC enum vg_status vg_mapping_create(struct vg_address_range *range, size_t offset,
					   struct vg_physical_memory *memory, struct vg_mapping **ret_mapping);
/* For each of the devices. INVALID (no device), CLOSED, NO_MEMORY, DRIVER. Any thread. Source: cuMemSetAccess. */
VG_PUBLIC enum vg_status vg_mapping_set_access(struct vg_mapping *mapping, struct vg_device *const *devices,
					       size_t count, enum vg_access access);
/* Drops the caller's reference; the last one unmaps, and does not wait for work that still uses the address. NULL is
 * fine. Any thread. */
VG_PUBLIC void vg_mapping_destroy(struct vg_mapping *mapping);
/* Unmaps. Closing twice is fine. INVALID, DRIVER. Source: cuMemUnmap. */
VG_PUBLIC enum vg_status vg_mapping_close(struct vg_mapping *mapping);
/* 0 once closed. */
VG_PUBLIC vg_address vg_mapping_address(const struct vg_mapping *mapping);
VG_PUBLIC size_t vg_mapping_size(const struct vg_mapping *mapping);

#ifdef __cplusplus
}
#endif
#endif
