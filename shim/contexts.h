// Keeps the list of the live contexts of this process. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "abi/cuda_abi.h"

// The primary context of the device, if the process has no other context and the primary context is known; else NULL.
extern _Atomic(CUcontext) shim_only_context;

// Returns the context in which the calling thread creates objects: the process's only context, or else the thread's
// current one. NULL: there is no context.
CUcontext shim_current_context(void);
// Returns the context of a stream; for a default stream, shim_current_context().
CUcontext shim_context_of_stream(CUstream stream);
// Stores the live contexts, at most `most` of them, and returns how many it stored.
size_t shim_contexts_list(CUcontext *ret_contexts, size_t most);
// Stores the primary context. `context` is NULL if the handle is unknown, or if the context was destroyed.
// `is_charged`: the primary context exists and is charged, even if its handle is unknown.
void shim_contexts_set_primary(CUcontext context, bool is_charged);
// Note that a context other than the primary one was created (shim_contexts_add) or destroyed (shim_contexts_remove).
void shim_contexts_add(CUcontext context);
void shim_contexts_remove(CUcontext context);
