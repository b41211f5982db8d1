/* Memory resources that wrap another one, and add a limit, statistics, a log, or retries. They can be stacked: each
 * is a resource, and keeps the one below. */
#ifndef VIRGATE_MEMORY_ADAPTOR_H
#define VIRGATE_MEMORY_ADAPTOR_H

#include <virgate/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For all of these: the caller owns *ret_resource. INVALID, CLOSED, NO_MEMORY. Any thread. Callbacks are called from
 * any thread without locks, and may use the library. */

/* Adds a limit: allocations that would bring the bytes in buffers above `limit` return LIMIT. */
VG_PUBLIC enum vg_status vg_limiting_resource_create(struct vg_memory_resource *upstream, size_t limit,
						     struct vg_memory_resource **ret_resource);
/* Reads how many bytes are in buffers now. INVALID (not a limiting resource). */
VG_PUBLIC enum vg_status vg_limiting_resource_used(const struct vg_memory_resource *resource, size_t *ret_used);

struct vg_memory_statistics {
	uint64_t bytes, peak_bytes, total_bytes;       /* bytes in buffers now, the maximum, and the sum over time */
	uint64_t buffers, peak_buffers, total_buffers; /* number of buffers now, the maximum, and the sum over time */
	uint64_t failures;			       /* allocations that failed */
};
/* Adds statistics. */
VG_PUBLIC enum vg_status vg_statistics_resource_create(struct vg_memory_resource *upstream,
						       struct vg_memory_resource **ret_resource);
/* Reads the statistics. INVALID (not a statistics resource), CLOSED. */
VG_PUBLIC enum vg_status vg_statistics_resource_read(const struct vg_memory_resource *resource,
						     struct vg_memory_statistics *ret_statistics);

/* An allocation or deallocation. `size` is the size of the allocation; if `status` is not VG_OK, the requested size. */
struct vg_memory_event {
	int freed; /* nonzero: a deallocation; 0: an allocation */
	vg_address address;
	size_t size;
	struct vg_stream *stream; /* NULL: none */
	enum vg_status status;
};
typedef void vg_memory_event_fn(void *user, const struct vg_memory_event *event);
/* Adds a log: calls `callback` after every allocation and deallocation; NULL: writes a line to the log (vg_log_set). */
VG_PUBLIC enum vg_status vg_logging_resource_create(struct vg_memory_resource *upstream, vg_memory_event_fn *callback,
						    void *user, struct vg_memory_resource **ret_resource);

/* Returns nonzero to retry, after the program has freed memory; 0 to fail. */
typedef int vg_memory_retry_fn(void *user, size_t size);
/* Adds retries: calls `callback` and retries while the resource below is out of memory or at a limit. */
VG_PUBLIC enum vg_status vg_retrying_resource_create(struct vg_memory_resource *upstream, vg_memory_retry_fn *callback,
						     void *user, struct vg_memory_resource **ret_resource);

#ifdef __cplusplus
}
#endif
#endif
