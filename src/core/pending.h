// Memory that cannot be freed yet, because the stream of its buffer captures. Any thread.
#pragma once
#include "core/resource.h"

// Whether memory of this stream, which may be NULL, has to wait.
bool core_pending_needed(struct vg_stream *stream);
// Holds the resource and the stream until the memory can go. NO_MEMORY: it is lost.
enum vg_status core_pending_add(struct vg_memory_resource *resource, const struct vg_allocation *allocation,
				struct vg_stream *stream);
// Held while a capture begins, so that nothing is freed into it: whether a stream captures is asked before.
void core_pending_hold(void);
void core_pending_go_on(void);
// Frees what can be freed by now; one load where nothing waits.
void core_pending_retry(void);
