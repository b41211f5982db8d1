// Declares the list of the driver functions that the simulator implements, for tests and for the coverage table. The
// function is exported. Any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SIM_EXPORT __attribute__((visibility("default")))

SIM_EXPORT bool virgate_sim_implements(const char *abi);
// Returns a row of entries.def, and whether the simulator implements its function. Returns false after the last row.
SIM_EXPORT bool virgate_sim_coverage(size_t index, const char **ret_abi, const char **ret_family,
				     bool *ret_implemented);
