// The simulated NVML, which reads the node's shared state (nvml*.c). Any thread.
#pragma once

#pragma GCC visibility push(default)
#include "abi/nvml_abi.h"
#pragma GCC visibility pop

#include <stdint.h>

#include "region.h"

enum { NVIDIA = 0x10de }; // the PCI vendor NVIDIA; the simulated device is not one of NVIDIA's

struct nvmlDevice_st {
	int index;
	char uuid[REGION_UUID_TEXT], pci[32];
	uint64_t seen_ns, seen_busy; // the latest reading, to compute rates
	unsigned rate;
};

struct nvml_state {
	struct sim_config config;
	struct region *region;
	struct nvmlDevice_st devices[SIM_DEVICES];
};

// Returns NVML_ERROR_UNINITIALIZED before nvmlInit and after nvmlShutdown.
nvmlReturn_t nvml_state(struct nvml_state **ret_state);
// Checks the handle, and returns the state. NVML_ERROR_UNINITIALIZED before nvmlInit and after nvmlShutdown.
nvmlReturn_t nvml_device(nvmlDevice_t device, struct nvml_state **ret_state);
// Copies a text. NVML_ERROR_INSUFFICIENT_SIZE.
nvmlReturn_t nvml_text(char *to, unsigned length, const char *text);

// Returns this namespace's pid of the process that has `pid` in another pid namespace; 0: it is not visible here.
pid_t nvml_find_pid(uint32_t pid_namespace, pid_t pid);

// Returns from the caller if the expression is not NVML_SUCCESS, like SIM_TRY in sim.h.
#define NVML_TRY(expression)                      \
	do {                                      \
		nvmlReturn_t try_ = (expression); \
		if (try_ != NVML_SUCCESS)         \
			return try_;              \
	} while (0)

// First line of an entry about a device: returns from the entry if the handle is invalid or `wrong` is true.
#define NVML_ENTER(device, wrong)            \
	struct nvml_state *now;              \
	NVML_TRY(nvml_device(device, &now)); \
	if (wrong)                           \
	return NVML_ERROR_INVALID_ARGUMENT
// First line of an entry with a versioned structure: returns from the entry if the handle is invalid, or the structure
// is missing or of another version.
#define NVML_ENTER_VERSION(device, info, expected) \
	NVML_ENTER(device, !(info));               \
	if ((info)->version != (expected))         \
	return NVML_ERROR_ARGUMENT_VERSION_MISMATCH

// Defines an entry that returns one number.
#define NVML_NUMBER(name, type, result, value)               \
	nvmlReturn_t name(nvmlDevice_t device, type *result) \
	{                                                    \
		NVML_ENTER(device, !result);                 \
		*result = value;                             \
		return NVML_SUCCESS;                         \
	}
