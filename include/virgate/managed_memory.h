/* Advice to the driver about managed memory, prefetches and discards. All functions need buffers of managed memory
 * (of a managed pool, or borrowed) and return INVALID for others. */
#ifndef VIRGATE_MANAGED_MEMORY_H
#define VIRGATE_MANAGED_MEMORY_H

#include <virgate/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- advice ------------------------------------------------------------------------------------------ */

/* Sets or reads whether the memory is mostly read, so that every reader may have a copy. INVALID, CLOSED, DRIVER. Any
 * thread. Source: cuMemAdvise, cuMemRangeGetAttribute. */
VG_PUBLIC enum vg_status vg_buffer_set_read_mostly(struct vg_buffer *buffer, int read_mostly);
VG_PUBLIC enum vg_status vg_buffer_read_mostly(const struct vg_buffer *buffer, int *ret_read_mostly);
/* Sets or reads the preferred location: a device, the host, a NUMA node of the host (HOST_NUMA, or HOST_NUMA_CURRENT:
 * the calling thread's), or NONE. Errors as above. */
VG_PUBLIC enum vg_status vg_buffer_set_preferred_location(struct vg_buffer *buffer, struct vg_memory_location location);
VG_PUBLIC enum vg_status vg_buffer_preferred_location(const struct vg_buffer *buffer,
						      struct vg_memory_location *ret_location);
/* Tells the driver whether a device or the host uses the memory (`accessed` nonzero), so that it stays mapped there.
 * INVALID also for other locations. */
VG_PUBLIC enum vg_status vg_buffer_set_accessed_by(struct vg_buffer *buffer, struct vg_memory_location location,
						   int accessed);
/* Lists the locations that vg_buffer_set_accessed_by() has set: devices in ascending order, then the host. *ret_count
 * is their number; with `capacity` 0, `ret_locations` may be NULL, and only the count is returned. LIMIT if there are
 * more than `capacity`; nothing is written then. */
VG_PUBLIC enum vg_status vg_buffer_accessed_by(const struct vg_buffer *buffer, struct vg_memory_location *ret_locations,
					       size_t capacity, size_t *ret_count);

/* ---- moving, in the order of a stream ----------------------------------------------------------------- */

/* Prefetches buffers. `locations` has one location for all buffers, or one for each. Empty buffers are skipped. INVALID
 * (another number of locations, NONE), UNSUPPORTED (several at once, and discarding, need driver 13.0), CLOSED,
 * NO_MEMORY, DRIVER. Any thread. Sources: cuMemPrefetchAsync, cuMemPrefetchBatchAsync,
 * cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardBatchAsync. */
VG_PUBLIC enum vg_status vg_buffers_prefetch(struct vg_buffer *const *buffers, size_t count,
					     const struct vg_memory_location *locations, size_t location_count,
					     struct vg_stream *stream);
/* Discards the contents, so that moving the memory is cheaper; its contents are undefined then. */
VG_PUBLIC enum vg_status vg_buffers_discard(struct vg_buffer *const *buffers, size_t count, struct vg_stream *stream);
VG_PUBLIC enum vg_status vg_buffers_discard_and_prefetch(struct vg_buffer *const *buffers, size_t count,
							 const struct vg_memory_location *locations,
							 size_t location_count, struct vg_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
