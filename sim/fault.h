// Injects faults as VIRGATE_SIM_FAULT requests (fault.c). Any thread.
#pragma once

#include "sim.h"

// Reads VIRGATE_SIM_FAULT. cuInit calls it before any other driver call can run, and returns its result.
CUresult sim_fault_start(void);
// Returns the number of an exported function (enum vg_entry), or -1.
int sim_fault_find_entry(const char *name);
// Returns the error with which VIRGATE_SIM_FAULT makes the call fail, or CUDA_SUCCESS. Call it only if SIM_GATE_FAULTS
// is set.
CUresult sim_fault_enter(enum vg_entry entry);
// Returns how much memory VIRGATE_SIM_FAULT leaves a device. UINT64_MAX: all of it.
uint64_t sim_fault_memory(void);
// Sleeps before an operation if VIRGATE_SIM_FAULT makes the device slow.
void sim_fault_delay(struct sim_device *device);
// Returns whether VIRGATE_SIM_FAULT makes operations slow.
bool sim_fault_slows_operations(void);
// Returns whether a restore fails for good if the device has too little memory, as VIRGATE_SIM_FAULT can request.
bool sim_fault_fails_restore(void);
