// How long operations and driver calls take: VIRGATE_SIM_COST (cost.c). Any thread.
#pragma once

#include "region_time.h"
#include "sim.h"

// Reads VIRGATE_SIM_COST. cuInit calls it before any other driver call can run. CUDA_ERROR_INVALID_VALUE: the problem
// was reported on standard error.
CUresult sim_cost_start(void);
// Returns the piece of work of a kernel with `blocks` blocks on at most `sms` multiprocessors.
struct region_piece sim_cost_kernel(const char *name, uint64_t blocks, unsigned sms);
// Returns the piece of work of a memset, or of a copy within the device.
struct region_piece sim_cost_device_bytes(uint64_t bytes);
// Returns the piece of work of a copy between host and device.
struct region_piece sim_cost_host_bytes(uint64_t bytes, bool from_device);
// If SIM_GATE_COSTS is set: sleeps as long as the call takes.
void sim_cost_sleep(enum vg_entry entry);
