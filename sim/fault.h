// Injected faults: VIRGATE_SIM_FAULT (fault.c). Any thread.
#pragma once

#include "sim.h"

// cuInit, before the gate opens: reads VIRGATE_SIM_FAULT. cuInit returns the result.
CUresult sim_fault_start(void);
// Returns the number of an exported function (enum vg_entry), or -1.
int sim_fault_find_entry(const char *name);
// SIM_GATE_FAULTS is set: returns the error that the call is to fail with, or success.
CUresult sim_fault_enter(enum vg_entry entry);
// Returns how many bytes of memory a device has at most; UINT64_MAX: no such fault.
uint64_t sim_fault_memory(void);
// Sleeps before an operation if the device is to be slow.
void sim_fault_delay(struct sim_device *device);
// Returns whether operations take longer than they need.
bool sim_fault_slows_operations(void);
// Returns whether a restore without enough device memory fails for good.
bool sim_fault_fails_restore(void);
