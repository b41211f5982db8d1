/* Memory resources other than pools: graph memory, pinned and device memory without streams. */
#ifndef VIRGATE_MEMORY_RESOURCE_H
#define VIRGATE_MEMORY_RESOURCE_H

#include <virgate/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- of graphs --------------------------------------------------------------------------------------- */

/* Returns the resource for memory that a graph allocates and frees when it runs. Buffers are created and closed on
 * capturing streams only, which adds a node to the graph. There is one resource for each device; the caller owns a
 * reference to *ret_resource, and closing it has no effect. If a buffer is destroyed after the capture, its memory
 * belongs to the graph. To free memory that a launch allocated and the graph does not free, borrow its address as a
 * buffer of a pool. INVALID, UNSUPPORTED (no pools), NO_MEMORY. Any thread. Source: cuMemAllocAsync, cuMemFreeAsync. */
VG_PUBLIC enum vg_status vg_graph_memory_resource(struct vg_device *device, struct vg_memory_resource **ret_resource);

/* Bytes of the device's graph memory. */
struct vg_graph_memory_attributes {
	uint64_t reserved_mem_current, reserved_mem_high; /* reserved by the driver for graphs, and their maximum */
	uint64_t used_mem_current, used_mem_high;	  /* bytes in use, and their maximum */
};
/* Reads the figures. INVALID, DRIVER. Any thread. Source: cuDeviceGetGraphMemAttribute. */
VG_PUBLIC enum vg_status vg_graph_memory_attributes(struct vg_device *device,
						    struct vg_graph_memory_attributes *ret_attributes);
/* Resets a maximum: `value` must be 0. INVALID, DRIVER. Any thread. Source: cuDeviceSetGraphMemAttribute. */
VG_PUBLIC enum vg_status vg_graph_memory_set_reserved_mem_high(struct vg_device *device, uint64_t value);
VG_PUBLIC enum vg_status vg_graph_memory_set_used_mem_high(struct vg_device *device, uint64_t value);
/* Returns memory that no graph uses to the device. INVALID, DRIVER. Any thread. Source: cuDeviceGraphMemTrim. */
VG_PUBLIC enum vg_status vg_graph_memory_trim(struct vg_device *device);

/* ---- without the order of a stream ------------------------------------------------------------------- */

/* Creates a resource for page-locked host memory of a context, which its device can access. Buffers need no stream;
 * with one, the memory is freed after the work of the stream. 0 bytes need no driver call. INVALID, CLOSED,
 * NO_MEMORY. Any thread. Source: cuMemAllocHost, cuMemFreeHost. */
VG_PUBLIC enum vg_status vg_legacy_pinned_resource_create(struct vg_context *context,
							  struct vg_memory_resource **ret_resource);
/* Creates a resource for device memory of a context, for devices without pools. Buffers need no stream; freeing
 * waits for the device. 0 bytes need no driver call. INVALID, CLOSED, NO_MEMORY. Any thread. Source: cuMemAlloc,
 * cuMemFree. */
VG_PUBLIC enum vg_status vg_synchronous_resource_create(struct vg_context *context,
							struct vg_memory_resource **ret_resource);

/* ---- the default of a device --------------------------------------------------------------------------- */

/* Returns the resource that vg_device_allocate() uses: the device's current pool, or cuMemAlloc if the device has no
 * pools, unless the program set another one. The caller owns a reference to *ret_resource. INVALID, NO_MEMORY,
 * DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_device_memory_resource(struct vg_device *device, struct vg_memory_resource **ret_resource);
/* Sets that resource; the device keeps a reference. NULL restores the default. INVALID, CLOSED. Any thread. */
VG_PUBLIC enum vg_status vg_device_set_memory_resource(struct vg_device *device, struct vg_memory_resource *resource);
/* Allocates with vg_buffer_create() from the device's memory resource. */
VG_PUBLIC enum vg_status vg_device_allocate(struct vg_device *device, size_t size, struct vg_stream *stream,
					    struct vg_buffer **ret_buffer);

#ifdef __cplusplus
}
#endif
#endif
