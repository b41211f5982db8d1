// Injected faults, VIRGATE_SIM_FAULT. The hooks that the driver's core calls are in sim.h:
// sim_fault_start, sim_fault_enter, sim_fault_memory, sim_fault_delay. Any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Parses a specification (NULL or empty: no faults). Returns 0, or 1 with one line in
// `error` that says what is wrong with it. Before the gate opens only.
int sim_fault_configure(const char *specification, char *error, size_t error_size);
// Returns the number of an exported function (enum vg_entry), or -1.
int sim_fault_find_entry(const char *name);
// Operations take longer than they need.
bool sim_fault_slows(void);
// A restore without enough device memory fails for good.
bool sim_fault_restore_sticks(void);
