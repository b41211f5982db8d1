// The simulated NVML from inside: a view of the node's shared state. Any thread.
#pragma once

#pragma GCC visibility push(default)
#include "abi/nvml_abi.h"
#pragma GCC visibility pop

#include <stdint.h>

#include "region.h"

enum { NVIDIA = 0x10de }; // the PCI vendor; no device of theirs is meant

struct nvmlDevice_st {
	int index;
	char uuid[48], pci[32];
	uint64_t seen_ns, seen_busy; // for rates: the last look
	unsigned rate;
};

struct nvml_state {
	struct sim_config config;
	struct region *region;
	struct nvmlDevice_st devices[SIM_DEVICES];
};

// NVML_SUCCESS, or NVML_ERROR_UNINITIALIZED outside nvmlInit and nvmlShutdown.
nvmlReturn_t nvml_state(struct nvml_state **ret_state);
// Likewise, and the handle is one of ours.
nvmlReturn_t nvml_device(nvmlDevice_t device, struct nvml_state **ret_state);
nvmlReturn_t nvml_text(char *to, unsigned length, const char *text);

#define NVML_TRY(expression)                                                                       \
	do {                                                                                       \
		nvmlReturn_t try_ = (expression);                                                  \
		if (try_ != NVML_SUCCESS)                                                          \
			return try_;                                                               \
	} while (0)

// In an entry about a device: returns unless that is one of ours, and where something else is `wrong`.
#define NVML_ENTER(device, wrong)                                                                  \
	struct nvml_state *now;                                                                    \
	NVML_TRY(nvml_device(device, &now));                                                       \
	if (wrong)                                                                                 \
		return NVML_ERROR_INVALID_ARGUMENT
// Likewise, and the caller's structure is there and of this version.
#define NVML_ENTER_VERSION(device, info, expected)                                                 \
	NVML_ENTER(device, !(info));                                                               \
	if ((info)->version != (expected))                                                         \
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH

// An answer that is one number.
#define NVML_NUMBER(name, type, result, value)                                                     \
	nvmlReturn_t name(nvmlDevice_t device, type *result)                                       \
	{                                                                                          \
		NVML_ENTER(device, !result);                                                       \
		*result = value;                                                                   \
		return NVML_SUCCESS;                                                               \
	}
