// Finds the process under which the driver lists a shared allocation. Main thread only.
#pragma once
#include "daemon/node.h"

// Returns how many bytes of shared allocations the driver may list under the tenant's process although it is not
// charged for them: the vGPU is charged, or the process that allocated them and has ended.
uint64_t shared_bytes_shown_under(const struct node *node, const struct tenant *tenant);
// Returns the part of these bytes that other vGPUs than the tenant's are charged for. Of each, at most its limit.
uint64_t shared_bytes_of_others(const struct node *node, const struct tenant *tenant);
