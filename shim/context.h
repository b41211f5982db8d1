// What contexts take: a fixed amount each, and what their limits declare. Any thread.
#pragma once
#include "shim/charge.h"

// A context went away, and with it all that was allocated in it.
void shim_context_gone(CUcontext context);
