/* Memory resources besides the pools: graph memory, pinned and device memory without streams. */
#ifndef VIRGATE_MEMORY_RESOURCE_H
#define VIRGATE_MEMORY_RESOURCE_H

#include <virgate/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- of graphs --------------------------------------------------------------------------------------- */

/* Memory that a graph allocates and frees when it runs: buffers are created and closed on capturing streams only, which
 * adds a node to the graph. One resource a device, for all of the process; the caller owns a reference to
 * *ret_resource, and closing it has no effect on others. A buffer that is destroyed when its stream captures no more
 * stays the graph's; what a launch allocated and the graph does not free is freed by a buffer that borrows it for a
 * pool. INVALID, UNSUPPORTED (no pools), NO_MEMORY. Any thread. Source: cuMemAllocAsync, cuMemFreeAsync. */
VG_PUBLIC enum vg_status vg_graph_memory_resource(struct vg_device *device, struct vg_memory_resource **ret_resource);

/* Bytes of the device's graph memory. */
struct vg_graph_memory_attributes {
	uint64_t reserved_mem_current, reserved_mem_high; /* that the driver holds for graphs, and held at most */
	uint64_t used_mem_current, used_mem_high;	  /* in use, and the most there were */
};
/* INVALID, DRIVER. Any thread. Source: cuDeviceGetGraphMemAttribute. */
VG_PUBLIC enum vg_status vg_graph_memory_attributes(struct vg_device *device,
						    struct vg_graph_memory_attributes *ret_attributes);
/* Lets a high mark begin anew: `value` must be 0. INVALID, DRIVER. Any thread. Source: cuDeviceSetGraphMemAttribute. */
VG_PUBLIC enum vg_status vg_graph_memory_set_reserved_mem_high(struct vg_device *device, uint64_t value);
VG_PUBLIC enum vg_status vg_graph_memory_set_used_mem_high(struct vg_device *device, uint64_t value);
/* Gives what no graph uses back to the device. INVALID, DRIVER. Any thread. Source: cuDeviceGraphMemTrim. */
VG_PUBLIC enum vg_status vg_graph_memory_trim(struct vg_device *device);

/* ---- without the order of a stream ------------------------------------------------------------------- */

/* Page-locked host memory of a context, which its devices reach too. Buffers need no stream; with one, the memory is
 * freed when the stream has done its work. 0 bytes take no call of the driver. INVALID, CLOSED, NO_MEMORY. Any thread.
 * Source: cuMemAllocHost, cuMemFreeHost. */
VG_PUBLIC enum vg_status vg_legacy_pinned_resource_create(struct vg_context *context,
							  struct vg_memory_resource **ret_resource);
/* Device memory of a context, for devices without pools. Buffers need no stream; freeing waits for the device. 0 bytes
 * take no call of the driver. INVALID, CLOSED, NO_MEMORY. Any thread. Source: cuMemAlloc, cuMemFree. */
VG_PUBLIC enum vg_status vg_synchronous_resource_create(struct vg_context *context,
							struct vg_memory_resource **ret_resource);

/* ---- a device's own ---------------------------------------------------------------------------------- */

/* What vg_device_allocate() uses: the device's current pool, or cuMemAlloc where the device has no pools, unless
 * the program set another. The caller owns a reference to *ret_resource. INVALID, NO_MEMORY, DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_device_memory_resource(struct vg_device *device, struct vg_memory_resource **ret_resource);
/* The device keeps a reference; NULL goes back to the library's choice. INVALID, CLOSED. Any thread. */
VG_PUBLIC enum vg_status vg_device_set_memory_resource(struct vg_device *device, struct vg_memory_resource *resource);
/* vg_buffer_create() with the device's memory resource. */
VG_PUBLIC enum vg_status vg_device_allocate(struct vg_device *device, size_t size, struct vg_stream *stream,
					    struct vg_buffer **ret_buffer);

#ifdef __cplusplus
}
#endif
#endif
