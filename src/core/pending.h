// Keeps memory that cannot be freed yet, because the stream of its buffer is being captured. Any thread.
#pragma once
#include "core/resource.h"

// Returns whether memory that is freed in the order of this stream must wait, because the stream is being captured.
// `stream` may be NULL.
bool core_pending_needed(struct vg_stream *stream);
// Puts memory into the list until it can be freed, and retains the resource and the stream. NO_MEMORY: the memory
// leaks.
enum vg_status core_pending_add(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
				struct vg_stream *stream);
// Prevents core_pending_retry() from freeing memory while a capture begins. Otherwise a capture could begin between
// that function's test for captures and its free.
void core_pending_lock(void);
void core_pending_unlock(void);
// Frees the memory in the list that can be freed now. If the list is empty, this costs one load.
void core_pending_retry(void);
