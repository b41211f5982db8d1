// Shared allocations: the process under which the device shows them. Main thread only.
#pragma once
#include "daemon/node.h"

// Returns the bytes that the device may show under the tenant's process although they are charged to the vGPU, or to an
// owner that has ended.
uint64_t shared_bytes_shown_under(const struct node *node, const struct tenant *tenant);
