// Declares the simulated NVML, which reads the state that the processes of the simulated node share (nvml*.c). Any
// thread.
#pragma once

#pragma GCC visibility push(default)
#include "abi/nvml_abi.h"
#pragma GCC visibility pop

#include <stdint.h>

#include "region.h"

enum { NVIDIA = 0x10de }; // PCI device id: vendor NVIDIA in the low half, and device 0

struct nvmlDevice_st {
	int index;
	char uuid[REGION_UUID_TEXT], pci[32];
	uint64_t seen_ns, seen_busy; // the latest reading of the busy time, to compute percentages
	unsigned rate;
};

struct nvml_state {
	struct sim_config config;
	struct region *region;
	struct nvmlDevice_st devices[SIM_DEVICES];
};

// Returns the state. NVML_ERROR_UNINITIALIZED: before nvmlInit or after nvmlShutdown.
nvmlReturn_t nvml_state(struct nvml_state **ret_state);
// Checks the handle of a device, and returns the state. NVML_ERROR_UNINITIALIZED: before nvmlInit or after
// nvmlShutdown.
nvmlReturn_t nvml_device(nvmlDevice_t device, struct nvml_state **ret_state);
// Copies a string to the program's buffer of `length` bytes, with the 0 byte at its end. NVML_ERROR_INSUFFICIENT_SIZE:
// the buffer is too small.
nvmlReturn_t nvml_text(char *to, unsigned length, const char *text);

// Finds a process that has `pid` in another pid namespace. Returns its pid in this process's namespace; 0: it has none.
pid_t nvml_find_pid(uint32_t pid_namespace, pid_t pid);

// Evaluates an expression, and returns its value from the calling function unless it is NVML_SUCCESS.
#define NVML_TRY(expression)                      \
	do {                                      \
		nvmlReturn_t try_ = (expression); \
		if (try_ != NVML_SUCCESS)         \
			return try_;              \
	} while (0)

// Stands in the first line of a function about a device: returns an error if the handle is invalid or `wrong` is true.
#define NVML_ENTER(device, wrong)            \
	struct nvml_state *now;              \
	NVML_TRY(nvml_device(device, &now)); \
	if (wrong)                           \
	return NVML_ERROR_INVALID_ARGUMENT
// Stands in the first line of a function with a versioned structure: returns an error if the handle is invalid, or the
// structure is NULL or of another version.
#define NVML_ENTER_VERSION(device, info, expected) \
	NVML_ENTER(device, !(info));               \
	if ((info)->version != (expected))         \
	return NVML_ERROR_ARGUMENT_VERSION_MISMATCH

// Defines a function of NVML that returns one number.
#define NVML_NUMBER(name, type, result, value)               \
	nvmlReturn_t name(nvmlDevice_t device, type *result) \
	{                                                    \
		NVML_ENTER(device, !result);                 \
		*result = value;                             \
		return NVML_SUCCESS;                         \
	}
