// Checks whether the GPUs have room for processes that the driver has taken off them, before the driver restores the
// processes. One thread.
#pragma once
#include "checkpoint/tenant/tenant.h"

// Checks the GPU of each vGPU that has processes of `tree` whose GPU state is checkpointed. These processes need the
// memory that is charged in their slots, less what their pagers have moved to the host. What processes outside vGPUs
// need is unknown, so it counts as 0. A GPU that NVML does not report is not checked. `retry`: the end of the message,
// what to do when there is room. DEVICE_MEMORY (with need and have).
enum vg_status room_check(const struct tree *tree, const struct tenants *tenants, const char *retry);
