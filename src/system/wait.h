// Waiting with NVML, whose reading of a time of 0 is its own: ours is "for ever". Any thread.
#pragma once
#include <sys/types.h>

#include "system/nvml.h"

// Calls `wait` with slices of the time until it answers otherwise than NVML_ERROR_TIMEOUT, which it may also do early.
nvmlReturn_t system_wait(unsigned timeout_ms, nvmlReturn_t (*wait)(void *context, unsigned slice_ms), void *context);
// Sets are NVML's state, which a child after fork has not: VG_STATE there.
enum vg_status system_check_maker(pid_t maker);
