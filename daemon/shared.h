// Finds the process under which the driver lists a shared allocation. Main thread only.
#pragma once
#include "daemon/node.h"

// Returns how many bytes of shared allocations the driver may list under the tenant's process although they are charged
// to the vGPU, or to an owner that has ended.
uint64_t shared_bytes_shown_under(const struct node *node, const struct tenant *tenant);
