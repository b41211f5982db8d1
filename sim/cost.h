// Reads VIRGATE_SIM_COST: how long operations and driver calls take on the simulated device. Any thread.
#pragma once

#include "region_time.h"
#include "sim.h"

// Reads VIRGATE_SIM_COST. cuInit calls it before any other driver call can run. CUDA_ERROR_INVALID_VALUE: the problem
// was reported on standard error.
CUresult sim_cost_start(void);
// Returns the device time that a kernel of `blocks` blocks needs on at most `sms` multiprocessors.
struct region_piece sim_cost_kernel(const char *name, uint64_t blocks, unsigned sms);
// Returns the device time that a memset, or a copy within the device, needs.
struct region_piece sim_cost_device_bytes(uint64_t bytes);
// Returns the device time that a copy between host and device needs.
struct region_piece sim_cost_host_bytes(uint64_t bytes, bool from_device);
// Sleeps as long as a call of the driver function `entry` takes. Call it only if SIM_GATE_COSTS is set.
void sim_cost_sleep(enum vg_entry entry);
