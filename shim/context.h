// What contexts take: a fixed amount each, and what their limits declare. Any thread.
#pragma once
#include "shim/charge.h"

// NULL unless there is exactly one, and it is known: the device's primary context, that is.
extern _Atomic(CUcontext) shim_only_context;
// A context went away, and with it all that was allocated in it.
void shim_context_gone(CUcontext context);
// So much for every thread that the device can hold at once; UINT64_MAX where that is too much.
uint64_t shim_for_every_thread(uint64_t bytes);
