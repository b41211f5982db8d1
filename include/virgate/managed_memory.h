/* What the driver is told about managed memory: where it is used, and when it shall move. All of these take buffers of
 * managed memory (of a managed pool, or borrowed) and refuse others with INVALID. */
#ifndef VIRGATE_MANAGED_MEMORY_H
#define VIRGATE_MANAGED_MEMORY_H

#include <virgate/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- advice ------------------------------------------------------------------------------------------ */

/* Mostly read: copies may lie at each of its readers. INVALID, CLOSED, DRIVER. Any thread. Source: cuMemAdvise,
 * cuMemRangeGetAttribute. */
VG_PUBLIC enum vg_status vg_buffer_set_read_mostly(struct vg_buffer *buffer, int read_mostly);
VG_PUBLIC enum vg_status vg_buffer_read_mostly(const struct vg_buffer *buffer, int *ret_read_mostly);
/* Where it shall lie: a device, the host, a node of the host (HOST_NUMA, or HOST_NUMA_CURRENT: the calling thread's),
 * or NONE for anywhere. Errors as above. */
VG_PUBLIC enum vg_status vg_buffer_set_preferred_location(struct vg_buffer *buffer, struct vg_memory_location location);
VG_PUBLIC enum vg_status vg_buffer_preferred_location(const struct vg_buffer *buffer,
						      struct vg_memory_location *ret_location);
/* That a device or the host uses it (`accessed` nonzero) or does no more, so that it stays mapped there. INVALID also
 * for other locations. */
VG_PUBLIC enum vg_status vg_buffer_set_accessed_by(struct vg_buffer *buffer, struct vg_memory_location location,
						   int accessed);
/* Devices in ascending order, then the host. *ret_count is how many there are; with `capacity` 0, `ret_locations` may
 * be NULL, and only the count is told. LIMIT if there are more than `capacity`; nothing is written then. */
VG_PUBLIC enum vg_status vg_buffer_accessed_by(const struct vg_buffer *buffer, struct vg_memory_location *ret_locations,
					       size_t capacity, size_t *ret_count);

/* ---- moving, in the order of a stream ----------------------------------------------------------------- */

/* Several buffers at once, or one; `locations` is one for all or one for each. Empty buffers are passed over. INVALID
 * (neither one location nor one each, NONE), UNSUPPORTED (several at once, and discarding, need driver 13.0), CLOSED,
 * NO_MEMORY, DRIVER. Any thread. Sources: cuMemPrefetchAsync, cuMemPrefetchBatchAsync,
 * cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardBatchAsync. */
VG_PUBLIC enum vg_status vg_buffers_prefetch(struct vg_buffer *const *buffers, size_t count,
					     const struct vg_memory_location *locations, size_t location_count,
					     struct vg_stream *stream);
/* The contents are not needed any more: moving the memory is then cheaper; reading it gives anything. */
VG_PUBLIC enum vg_status vg_buffers_discard(struct vg_buffer *const *buffers, size_t count, struct vg_stream *stream);
VG_PUBLIC enum vg_status vg_buffers_discard_and_prefetch(struct vg_buffer *const *buffers, size_t count,
							 const struct vg_memory_location *locations,
							 size_t location_count, struct vg_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
