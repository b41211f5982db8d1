// Which entries the simulator implements, for tests and for the coverage table. Exported. Any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SIM_EXPORT __attribute__((visibility("default")))

SIM_EXPORT bool virgate_sim_implements(const char *abi);
// Returns a row of entries.def; false: there are no more rows.
SIM_EXPORT bool virgate_sim_coverage(size_t index, const char **ret_abi, const char **ret_family,
				     bool *ret_implemented);
