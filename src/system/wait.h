// Waits for events of NVML. A timeout of 0 waits for ever, unlike in NVML. Any thread.
#pragma once
#include <sys/types.h>

#include "system/nvml.h"

// Calls `wait` with parts of the timeout, until the whole timeout has passed or `wait` returns another result than
// NVML_ERROR_TIMEOUT.
nvmlReturn_t system_wait(unsigned timeout_ms, nvmlReturn_t (*wait)(void *context, unsigned slice_ms), void *context);
// Checks that this process created the set of events, since a child after fork cannot use the parent's. Fails with
// STATE.
enum vg_status system_check_creator(pid_t creator);
