// NVML as a table of typed functions. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "abi/nvml_abi.h"

// The entries we call: all in every supported driver; a missing one answers
// NVML_ERROR_FUNCTION_NOT_FOUND.
#define VG_NVML_CALLS(X)                                                                           \
	X(nvmlInitWithFlags)                                                                       \
	X(nvmlShutdown)                                                                            \
	X(nvmlSystemGetDriverVersion)                                                              \
	X(nvmlSystemGetCudaDriverVersion_v2)                                                       \
	X(nvmlDeviceGetCount_v2)                                                                   \
	X(nvmlDeviceGetHandleByIndex_v2)                                                           \
	X(nvmlDeviceGetUUID)                                                                       \
	X(nvmlDeviceGetName)                                                                       \
	X(nvmlDeviceGetMemoryInfo)                                                                 \
	X(nvmlDeviceGetCudaComputeCapability)                                                      \
	X(nvmlDeviceGetComputeRunningProcesses_v3)                                                 \
	X(nvmlDeviceGetGraphicsRunningProcesses_v3)

struct vg_nvml {
#define X(name) __typeof__(&name) name;
	VG_NVML_CALLS(X)
#undef X
	bool simulated;
};

// Loads VIRGATE_NVML, or the simulator's where VIRGATE_SIM is set, or libnvidia-ml.so.1; once
// per process. Calls none of its functions. 0, or 1 with a sentence in `problem`.
int vg_nvml_load(const struct vg_nvml **ret_nvml, char *problem, size_t capacity);
