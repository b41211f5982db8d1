// Injected faults: VIRGATE_SIM_FAULT (fault.c). Any thread.
#pragma once

#include "sim.h"

// Reads VIRGATE_SIM_FAULT. cuInit calls it before any other driver call can run, and returns its result.
CUresult sim_fault_start(void);
// Returns the number of an exported function (enum vg_entry), or -1.
int sim_fault_find_entry(const char *name);
// If SIM_GATE_FAULTS is set: returns the error with which the call must fail, or success.
CUresult sim_fault_enter(enum vg_entry entry);
// Returns how many bytes of memory a device has at most; UINT64_MAX: no such fault.
uint64_t sim_fault_memory(void);
// Sleeps before an operation if VIRGATE_SIM_FAULT makes the device slow.
void sim_fault_delay(struct sim_device *device);
// Returns whether VIRGATE_SIM_FAULT makes operations slow.
bool sim_fault_slows_operations(void);
// Returns whether a restore without enough device memory fails for good.
bool sim_fault_fails_restore(void);
