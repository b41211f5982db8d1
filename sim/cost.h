// How long operations and driver calls take, from VIRGATE_SIM_COST. Any thread.
#pragma once

#include "sim.h"

// Reads the variable. CUDA_ERROR_INVALID_VALUE, after one line on standard error.
CUresult sim_cost_start(void);
// Returns the piece of a kernel of that many blocks on at most `sms` multiprocessors.
struct region_piece sim_cost_kernel(const char *name, uint64_t blocks, unsigned sms);
// Returns the piece of a memset, or a copy within the device.
struct region_piece sim_cost_device_bytes(uint64_t bytes);
// Returns the piece of a copy between host and device.
struct region_piece sim_cost_host_bytes(uint64_t bytes, bool from_device);
// SIM_GATE_COSTS is set: sleeps as long as the call takes.
void sim_cost_call(enum vg_entry entry);
