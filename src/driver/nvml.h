// Loads NVML as a table of typed functions. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "abi/nvml_abi.h"

// The NVML functions in use, by topic. A function that the library lacks returns NVML_ERROR_FUNCTION_NOT_FOUND.
#define VG_NVML_CALLS(X)                                \
	X(nvmlInitWithFlags)                            \
	X(nvmlShutdown)                                 \
	X(nvmlSystemGetDriverVersion)                   \
	X(nvmlSystemGetCudaDriverVersion_v2)            \
	X(nvmlSystemGetDriverBranch)                    \
	X(nvmlSystemGetNVMLVersion)                     \
	X(nvmlSystemGetProcessName)                     \
	X(nvmlSystemGetTopologyGpuSet)                  \
	X(nvmlSystemEventSetCreate)                     \
	X(nvmlSystemEventSetFree)                       \
	X(nvmlSystemRegisterEvents)                     \
	X(nvmlSystemEventSetWait)                       \
	X(nvmlEventSetCreate)                           \
	X(nvmlEventSetFree)                             \
	X(nvmlEventSetWait)                             \
	X(nvmlEventSetWait_v2)                          \
	X(nvmlDeviceGetCount_v2)                        \
	X(nvmlDeviceGetHandleByIndex_v2)                \
	X(nvmlDeviceGetHandleByUUID)                    \
	X(nvmlDeviceGetHandleByPciBusId_v2)             \
	X(nvmlDeviceGetIndex)                           \
	X(nvmlDeviceGetUUID)                            \
	X(nvmlDeviceGetName)                            \
	X(nvmlDeviceGetSerial)                          \
	X(nvmlDeviceGetModuleId)                        \
	X(nvmlDeviceGetMinorNumber)                     \
	X(nvmlDeviceGetNumaNodeId)                      \
	X(nvmlDeviceGetBrand)                           \
	X(nvmlDeviceGetArchitecture)                    \
	X(nvmlDeviceGetCudaComputeCapability)           \
	X(nvmlDeviceGetC2cModeInfoV)                    \
	X(nvmlDeviceGetPersistenceMode)                 \
	X(nvmlDeviceSetPersistenceMode)                 \
	X(nvmlDeviceGetComputeMode)                     \
	X(nvmlDeviceGetEccMode)                         \
	X(nvmlDeviceGetAddressingMode)                  \
	X(nvmlDeviceGetDisplayMode)                     \
	X(nvmlDeviceGetDisplayActive)                   \
	X(nvmlDeviceGetAttributes_v2)                   \
	X(nvmlDeviceGetRepairStatus)                    \
	X(nvmlDeviceGetMemoryInfo)                      \
	X(nvmlDeviceGetMemoryInfo_v2)                   \
	X(nvmlDeviceGetBAR1MemoryInfo)                  \
	X(nvmlDeviceGetUtilizationRates)                \
	X(nvmlDeviceGetComputeRunningProcesses_v2)      \
	X(nvmlDeviceGetComputeRunningProcesses_v3)      \
	X(nvmlDeviceGetGraphicsRunningProcesses_v3)     \
	X(nvmlDeviceIsMigDeviceHandle)                  \
	X(nvmlDeviceGetMigMode)                         \
	X(nvmlDeviceSetMigMode)                         \
	X(nvmlDeviceGetMaxMigDeviceCount)               \
	X(nvmlDeviceGetMigDeviceHandleByIndex)          \
	X(nvmlDeviceGetDeviceHandleFromMigDeviceHandle) \
	X(nvmlDeviceGetMemoryAffinity)                  \
	X(nvmlDeviceGetCpuAffinityWithinScope)          \
	X(nvmlDeviceSetCpuAffinity)                     \
	X(nvmlDeviceClearCpuAffinity)                   \
	X(nvmlDeviceGetTopologyCommonAncestor)          \
	X(nvmlDeviceGetTopologyNearestGpus)             \
	X(nvmlDeviceGetP2PStatus)                       \
	X(nvmlDeviceGetPciInfo_v3)                      \
	X(nvmlDeviceGetPciInfoExt)                      \
	X(nvmlDeviceGetMaxPcieLinkGeneration)           \
	X(nvmlDeviceGetGpuMaxPcieLinkGeneration)        \
	X(nvmlDeviceGetMaxPcieLinkWidth)                \
	X(nvmlDeviceGetCurrPcieLinkGeneration)          \
	X(nvmlDeviceGetCurrPcieLinkWidth)               \
	X(nvmlDeviceGetPcieThroughput)                  \
	X(nvmlDeviceGetPcieReplayCounter)               \
	X(nvmlDeviceGetNvLinkVersion)                   \
	X(nvmlDeviceGetNvLinkState)                     \
	X(nvmlDeviceGetClock)                           \
	X(nvmlDeviceGetMaxClockInfo)                    \
	X(nvmlDeviceGetMaxCustomerBoostClock)           \
	X(nvmlDeviceGetMinMaxClockOfPState)             \
	X(nvmlDeviceGetClockOffsets)                    \
	X(nvmlDeviceGetAutoBoostedClocksEnabled)        \
	X(nvmlDeviceGetCurrentClocksEventReasons)       \
	X(nvmlDeviceGetSupportedClocksEventReasons)     \
	X(nvmlDeviceGetPerformanceState)                \
	X(nvmlDeviceGetSupportedPerformanceStates)      \
	X(nvmlDeviceGetDynamicPstatesInfo)              \
	X(nvmlDeviceGetTemperatureV)                    \
	X(nvmlDeviceGetTemperatureThreshold)            \
	X(nvmlDeviceGetMarginTemperature)               \
	X(nvmlDeviceGetThermalSettings)                 \
	X(nvmlDeviceGetCoolerInfo)                      \
	X(nvmlDeviceGetNumFans)                         \
	X(nvmlDeviceGetFanSpeed_v2)                     \
	X(nvmlDeviceSetFanSpeed_v2)                     \
	X(nvmlDeviceSetDefaultFanSpeed_v2)              \
	X(nvmlDeviceGetFanSpeedRPM)                     \
	X(nvmlDeviceGetTargetFanSpeed)                  \
	X(nvmlDeviceGetMinMaxFanSpeed)                  \
	X(nvmlDeviceGetFanControlPolicy_v2)             \
	X(nvmlDeviceGetInforomVersion)                  \
	X(nvmlDeviceGetInforomImageVersion)             \
	X(nvmlDeviceGetInforomConfigurationChecksum)    \
	X(nvmlDeviceValidateInforom)                    \
	X(nvmlDeviceGetLastBBXFlushTime)                \
	X(nvmlDeviceGetBoardPartNumber)                 \
	X(nvmlDeviceGetFieldValues)                     \
	X(nvmlDeviceClearFieldValues)                   \
	X(nvmlDeviceGetSupportedEventTypes)             \
	X(nvmlDeviceRegisterEvents)

struct vg_nvml {
#define X(name) __typeof__(&name) name;
	VG_NVML_CALLS(X)
#undef X
	bool simulated;
	const char *(*sim_directory)(void); // directory of the simulated node; NULL: NVML is not the simulated one
};

// Loads VIRGATE_NVML, or the simulated NVML if VIRGATE_SIM is set, or libnvidia-ml.so.1, once per process. Calls none
// of its functions. Returns 0, or 1 with a sentence in `problem`.
int vg_nvml_load(const struct vg_nvml **ret_nvml, char *problem, size_t capacity);
