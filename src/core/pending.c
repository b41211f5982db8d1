#include "core/pending.h"

#include "base/log.h"
#include "base/mutex.h"

#include <stdlib.h>

struct pending {
	struct vg_memory_resource *resource; // owns a reference
	struct vg_stream *stream;	     // owns a reference
	struct vg_allocation allocation;
	struct pending *next;
};

static struct vg_mutex lock;
// Held while pending memory is freed, and while a capture begins. Lock order: first this lock, then `lock`.
static struct vg_mutex freeing;
static _Atomic(struct pending *) list; // the list is changed only under `lock`

bool core_pending_needed(struct vg_stream *stream)
{
	bool capturing;

	return stream && core_stream_is_capturing(stream, &capturing) == VG_OK && capturing;
}

enum vg_status core_pending_add(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
				struct vg_stream *stream)
{
	struct pending *pending = malloc(sizeof *pending);

	if (!pending)
		return vg_fail(VG_NO_MEMORY, 0, "no memory to note %zu bytes that are to be freed after a capture",
			       allocation->size);
	core_object_retain(&stream->object);
	*pending = (struct pending){vg_memory_resource_retain(resource), stream, *allocation, NULL};
	vg_mutex_lock(&lock);
	pending->next = atomic_load(&list);
	atomic_store(&list, pending);
	vg_mutex_unlock(&lock);
	return VG_OK;
}

void core_pending_lock(void)
{
	vg_mutex_lock(&freeing);
}

void core_pending_unlock(void)
{
	vg_mutex_unlock(&freeing);
}

void core_pending_retry(void)
{
	if (__builtin_expect(!atomic_load_explicit(&list, memory_order_relaxed), 1))
		return;
	vg_mutex_lock(&lock);
	struct pending *waiting = atomic_exchange(&list, NULL);
	vg_mutex_unlock(&lock);
	CORE_RELAXED relaxed = core_relax();
	// If the memory still cannot be freed, its deallocation function puts it into the list again.
	for (struct pending *next; waiting; waiting = next) {
		next = waiting->next;
		vg_mutex_lock(&freeing);
		enum vg_status status =
			core_resource_deallocate(waiting->resource, &waiting->allocation, waiting->stream);
		vg_mutex_unlock(&freeing);
		if (status)
			vg_log(VG_LOG_WARNING, "freeing a buffer after a capture: %s", vg_last_error()->text);
		vg_memory_resource_destroy(waiting->resource);
		vg_stream_destroy(waiting->stream);
		free(waiting);
	}
}
