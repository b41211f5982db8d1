/* Virtual memory: objects for physical memory, address ranges, and the mappings between them; and a
 * memory resource that uses them, whose buffers can grow. */
#ifndef VIRGATE_VIRTUAL_MEMORY_H
#define VIRGATE_VIRTUAL_MEMORY_H

#include <virgate/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

enum vg_allocation_type { VG_ALLOCATION_PINNED, VG_ALLOCATION_MANAGED };
/* How the memory can be exported to other processes. */
enum vg_handle_type {
	VG_HANDLE_DEFAULT, /* a descriptor, if the location permits it */
	VG_HANDLE_POSIX_FD,
	VG_HANDLE_FABRIC,
	VG_HANDLE_NONE,
	VG_HANDLE_WIN32,    /* refused: Windows only */
	VG_HANDLE_WIN32_KMT /* refused: Windows only */
};
enum vg_granularity { VG_GRANULARITY_RECOMMENDED, VG_GRANULARITY_MINIMUM };
enum vg_access { VG_ACCESS_READ_WRITE, VG_ACCESS_READ, VG_ACCESS_NONE /* does not change existing access */ };

/* All 0: pinned memory of the device, exportable as a descriptor, that the device reads and writes. */
struct vg_virtual_memory_options {
	size_t size; /* sizeof(struct vg_virtual_memory_options) */
	enum vg_allocation_type allocation_type;
	struct vg_memory_location location; /* NONE or DEVICE: the device (id 0 or its own); HOST; HOST_NUMA: node `id`;
					     * HOST_NUMA_CURRENT: the node of the thread that allocates */
	enum vg_handle_type handle_type;
	enum vg_granularity granularity; /* sizes are multiples of it */
	int gpu_direct_rdma;		 /* nonzero: other hardware can access the memory */
	vg_address address_hint;	 /* preferred address; a multiple of granularity and alignment */
	size_t alignment;		 /* alignment of addresses, a power of two; 0: the granularity */
	struct vg_device *const *peers;	 /* other devices that get access; borrowed for the call */
	size_t peer_count;
	enum vg_access self_access; /* access of the device, and, to host memory, of the host */
	enum vg_access peer_access;
};

/* ---- the memory resource ------------------------------------------------------------------------------ */

/* Creates the resource. Its buffers are rounded up to the granularity; they need no stream, and with one they are
 * freed after its work. `options` may be NULL. The caller owns *ret_resource. INVALID (an option out of range, a peer
 * that cannot access the device), UNSUPPORTED (no virtual memory, GPU Direct RDMA or handle type on this device),
 * NO_MEMORY, DRIVER. Any thread. Sources: cuMemCreate, cuMemAddressReserve, cuMemMap, cuMemSetAccess. */
VG_PUBLIC enum vg_status vg_virtual_memory_resource_create(struct vg_device *device,
							   const struct vg_virtual_memory_options *options,
							   struct vg_memory_resource **ret_resource);
/* Creates a larger buffer whose first part is the memory of `buffer`: at the same address if the addresses behind it
 * are free, else at another one. `buffer` remains valid at its own address; both can be destroyed in any order. If
 * `size` is not larger, returns another reference to `buffer`. `options` apply to the memory that is added, and to the
 * access to all of it; NULL: the resource's options, and access is set for the added memory only. The
 * caller owns *ret_buffer. INVALID (not a buffer of such a resource; size 0; the buffer's size is not a multiple of the
 * granularity), CLOSED, NO_MEMORY, UNSUPPORTED, DRIVER; after a failure nothing has changed. Any thread. */
VG_PUBLIC enum vg_status vg_buffer_grow(struct vg_buffer *buffer, size_t size,
					const struct vg_virtual_memory_options *options, struct vg_buffer **ret_buffer);

/* ---- physical memory ------------------------------------------------------------------------------------ */

struct vg_physical_memory;

/* Allocates `size` bytes, rounded up to the granularity, without an address. Options of addresses are ignored. The
 * caller owns *ret_memory. INVALID, UNSUPPORTED, NO_MEMORY, DRIVER. Any thread. Source: cuMemCreate. */
VG_PUBLIC enum vg_status vg_physical_memory_create(struct vg_device *device, size_t size,
						   const struct vg_virtual_memory_options *options,
						   struct vg_physical_memory **ret_memory);
/* Returns a descriptor for another process, which the caller owns. STATE (created without that handle type), CLOSED,
 * DRIVER. Any thread. Source: cuMemExportToShareableHandle. */
VG_PUBLIC enum vg_status vg_physical_memory_export(struct vg_physical_memory *memory, int *ret_descriptor);
/* Imports memory by a descriptor, which the caller keeps. `size` is the exporter's: mapping fails if it is wrong.
 * INVALID, NO_MEMORY, DRIVER. Any thread. Source: cuMemImportFromShareableHandle. */
VG_PUBLIC enum vg_status vg_physical_memory_import(struct vg_device *device, int descriptor, size_t size,
						   struct vg_physical_memory **ret_memory);
/* Drops the caller's reference; mappings keep the memory. Accepts NULL. Any thread. */
VG_PUBLIC void vg_physical_memory_destroy(struct vg_physical_memory *memory);
VG_PUBLIC enum vg_status vg_physical_memory_close(struct vg_physical_memory *memory);
/* Returns the size in bytes; 0 for closed memory. */
VG_PUBLIC size_t vg_physical_memory_size(const struct vg_physical_memory *memory);

/* ---- addresses -------------------------------------------------------------------------------------------- */

struct vg_address_range;

/* Reserves `size` bytes of addresses without memory. `alignment` 0: the driver's; `hint` 0: anywhere; the driver may
 * choose another address. The caller owns *ret_range. INVALID (size 0, or not a multiple of 4 KiB; alignment not a
 * power of two), NO_MEMORY, DRIVER. Any thread. Source: cuMemAddressReserve. */
VG_PUBLIC enum vg_status vg_address_range_create(size_t size, size_t alignment, vg_address hint,
						 struct vg_address_range **ret_range);
/* Drops the caller's reference; mappings keep the addresses. Accepts NULL. Any thread. */
VG_PUBLIC void vg_address_range_destroy(struct vg_address_range *range);
VG_PUBLIC enum vg_status vg_address_range_close(struct vg_address_range *range);
/* 0 once closed. */
VG_PUBLIC vg_address vg_address_range_address(const struct vg_address_range *range);
VG_PUBLIC size_t vg_address_range_size(const struct vg_address_range *range);

/* ---- mappings --------------------------------------------------------------------------------------------- */

struct vg_mapping;

/* Maps all of the physical memory at `offset` of the range. The same memory may be mapped several times. No device has
 * access yet. The caller owns *ret_mapping, which keeps both. INVALID (past the end), CLOSED, NO_MEMORY, DRIVER. Any
 * thread. Source: cuMemMap. */
VG_PUBLIC enum vg_status vg_mapping_create(struct vg_address_range *range, size_t offset,
					   struct vg_physical_memory *memory, struct vg_mapping **ret_mapping);
/* Sets the devices' access. INVALID (no device), CLOSED, NO_MEMORY, DRIVER. Any thread. Source: cuMemSetAccess. */
VG_PUBLIC enum vg_status vg_mapping_set_access(struct vg_mapping *mapping, struct vg_device *const *devices,
					       size_t count, enum vg_access access);
/* Drops the caller's reference; the last one unmaps, and does not wait for work that still uses the address. Accepts
 * NULL. Any thread. */
VG_PUBLIC void vg_mapping_destroy(struct vg_mapping *mapping);
/* Unmaps the memory. May be closed twice. INVALID, DRIVER. Source: cuMemUnmap. */
VG_PUBLIC enum vg_status vg_mapping_close(struct vg_mapping *mapping);
/* 0 once closed. */
VG_PUBLIC vg_address vg_mapping_address(const struct vg_mapping *mapping);
VG_PUBLIC size_t vg_mapping_size(const struct vg_mapping *mapping);

#ifdef __cplusplus
}
#endif
#endif
