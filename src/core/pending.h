// Memory that cannot be freed yet, because the stream of its buffer is capturing. Any thread.
#pragma once
#include "core/resource.h"

// Whether memory that is freed on this stream has to wait. `stream` may be NULL.
bool core_pending_needed(struct vg_stream *stream);
// Notes the memory, with references to the resource and the stream, until it can be freed. NO_MEMORY: it leaks.
enum vg_status core_pending_add(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
				struct vg_stream *stream);
// Locks out core_pending_retry() while a capture begins: that asks whether a stream captures before it frees memory.
void core_pending_lock(void);
void core_pending_unlock(void);
// Frees the memory that can be freed by now. Costs one load if nothing waits.
void core_pending_retry(void);
