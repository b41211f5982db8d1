// Keeps memory that cannot be freed yet, because the stream of its buffer is being captured. Any thread.
#pragma once
#include "core/resource.h"

// Returns whether memory whose deallocation is ordered by this stream must wait. `stream` may be NULL.
bool core_pending_needed(struct vg_stream *stream);
// Puts memory into the list until it can be freed, and retains the resource and the stream. NO_MEMORY: the memory
// leaks.
enum vg_status core_pending_add(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
				struct vg_stream *stream);
// Excludes core_pending_retry() while a capture begins, because that function first tests for a capture and then frees.
void core_pending_lock(void);
void core_pending_unlock(void);
// Frees the memory in the list that can be freed now. If the list is empty, this costs one load.
void core_pending_retry(void);
