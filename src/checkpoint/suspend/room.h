// Checks whether the GPUs have room for processes that the driver has taken off them, before the driver restores the
// processes. One thread.
#pragma once
#include "checkpoint/tenant/tenant.h"

// Checks each GPU whose vGPUs have processes of `tree` that are off the GPU. Such a process needs the memory that is
// charged in its slot, less the memory that its pager keeps in the host. Processes outside vGPUs count as 0, because
// their need is unknown. Skips a GPU that NVML does not report. `retry` ends the message: it says what the user does
// when there is room. DEVICE_MEMORY (the error tells the bytes needed and the bytes free).
enum vg_status room_check(const struct tree *tree, const struct tenants *tenants, const char *retry);
