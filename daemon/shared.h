// Finds the process under which the driver lists a shared allocation. Main thread only.
#pragma once
#include "daemon/node.h"

// Returns how many bytes of shared allocations the driver may list under the tenant's process although the process is
// not charged for them. Such an allocation is charged to its vGPU, or to the ended process that allocated it.
uint64_t shared_bytes_shown_under(const struct node *node, const struct tenant *tenant);
// Returns the part of these bytes that is charged to vGPUs other than the tenant's. Counts at most the limit of each of
// these vGPUs.
uint64_t shared_bytes_of_others(const struct node *node, const struct tenant *tenant);
