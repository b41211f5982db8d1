/* Memory resources that wrap another one, and add a limit, figures, a log, or another try. They stack: each is a
 * resource like any other, and keeps the one below. */
#ifndef VIRGATE_MEMORY_ADAPTOR_H
#define VIRGATE_MEMORY_ADAPTOR_H

#include <virgate/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All of these: the caller owns *ret_resource. INVALID, CLOSED, NO_MEMORY. Any thread; so are the callbacks called
 * from any, without a lock held, and may use the library. */

/* Refuses with LIMIT what would bring the bytes in buffers above `limit`. */
VG_PUBLIC enum vg_status vg_limiting_resource_create(struct vg_memory_resource *upstream, size_t limit,
						     struct vg_memory_resource **ret_resource);
/* Bytes in buffers now. INVALID (not a limiting resource). */
VG_PUBLIC enum vg_status vg_limiting_resource_used(const struct vg_memory_resource *resource, size_t *ret_used);

struct vg_memory_statistics {
	uint64_t bytes, peak_bytes, total_bytes;	/* in buffers now, at most, ever */
	uint64_t buffers, peak_buffers, total_buffers;	/* likewise */
	uint64_t failures;				/* that were asked for and not given */
};
/* Counts. */
VG_PUBLIC enum vg_status vg_statistics_resource_create(struct vg_memory_resource *upstream,
						       struct vg_memory_resource **ret_resource);
/* INVALID (not a statistics resource), CLOSED. */
VG_PUBLIC enum vg_status vg_statistics_resource_read(const struct vg_memory_resource *resource,
						     struct vg_memory_statistics *ret_statistics);

/* What happened: size is what was asked where `status` is not VG_OK, else what was given or given back. */
struct vg_memory_event {
	int freed; /* nonzero: given back; 0: asked for */
	vg_address address;
	size_t size;
	struct vg_stream *stream; /* NULL: none */
	enum vg_status status;
};
typedef void vg_memory_event_fn(void *user, const struct vg_memory_event *event);
/* Calls `callback` after every allocation and deallocation; NULL: each is a line of the log (vg_log_set). */
VG_PUBLIC enum vg_status vg_logging_resource_create(struct vg_memory_resource *upstream, vg_memory_event_fn *callback,
						    void *user, struct vg_memory_resource **ret_resource);

/* Out of memory: nonzero to try again, after the program gave some back; 0 to fail. */
typedef int vg_memory_retry_fn(void *user, size_t size);
/* Asks `callback` and tries again while the resource below is out of memory or over a limit. */
VG_PUBLIC enum vg_status vg_retrying_resource_create(struct vg_memory_resource *upstream, vg_memory_retry_fn *callback,
						     void *user, struct vg_memory_resource **ret_resource);

#ifdef __cplusplus
}
#endif
#endif
