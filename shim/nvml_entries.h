// Declares the table of the real NVML functions that the exports call. nvml_exports.S defines it. Any thread.
#pragma once
#include <stdbool.h>

#include "abi/nvml_abi.h"

#define SHIM_EXPORT __attribute__((visibility("default")))

enum shim_nvml_row {
#define NVML(name) SHIM_NVML_##name,
#include "abi/nvml.def"
	SHIM_NVML_COUNT
};

extern __attribute__((visibility("hidden"))) void *shim_slots[SHIM_NVML_COUNT];

#define REAL(name) ((__typeof__(&name))__atomic_load_n(&shim_slots[SHIM_NVML_##name], __ATOMIC_RELAXED))

// Loads NVML if it is not loaded yet. Returns false if it was not found.
bool shim_nvml_loaded(void);
