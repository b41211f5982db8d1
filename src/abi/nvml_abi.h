// Declares the part of NVML that this project calls, implements or interposes, since the CUDA toolkit has no nvml.h.
// Structs and fields have NVML's names. Functions have the names of the exported symbols; no macro renames them. Any
// thread.
#pragma once

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_ALREADY_INITIALIZED = 5,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_INSUFFICIENT_POWER = 8,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_IRQ_ISSUE = 11,
	NVML_ERROR_LIBRARY_NOT_FOUND = 12,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_CORRUPTED_INFOROM = 14,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_RESET_REQUIRED = 16,
	NVML_ERROR_OPERATING_SYSTEM = 17,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
	NVML_ERROR_IN_USE = 19,
	NVML_ERROR_MEMORY = 20,
	NVML_ERROR_NO_DATA = 21,
	NVML_ERROR_VGPU_ECC_NOT_SUPPORTED = 22,
	NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
	NVML_ERROR_FREQ_NOT_SUPPORTED = 24,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_DEPRECATED = 26,
	NVML_ERROR_NOT_READY = 27,
	NVML_ERROR_GPU_NOT_FOUND = 28,
	NVML_ERROR_INVALID_STATE = 29,
	NVML_ERROR_RESET_TYPE_NOT_SUPPORTED = 30,
	NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

#define NVML_VALUE_NOT_AVAILABLE_ULL 0xffffffffffffffffULL
#define NVML_NO_INSTANCE 0xffffffffU // value of gpuInstanceId and computeInstanceId outside MIG

enum {
	NVML_DEVICE_UUID_V2_BUFFER_SIZE = 96,
	NVML_DEVICE_NAME_V2_BUFFER_SIZE = 96,
	NVML_DEVICE_SERIAL_BUFFER_SIZE = 30,
	NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE = 32,
	NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE = 16,
	NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE = 80,
	NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE = 80,
};

enum {
	NVML_INIT_FLAG_NO_GPUS = 1,
	NVML_INIT_FLAG_NO_ATTACH = 2,
};

// Returns the value of the first field of a versioned struct: the struct's size and version.
#define NVML_STRUCT_VERSION(type, number) ((unsigned)(sizeof(type) | ((unsigned)(number) << 24)))

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
	unsigned version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
#define nvmlMemory_v2 NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2)

typedef struct {
	unsigned long long bar1Total, bar1Free, bar1Used;
} nvmlBAR1Memory_t;

typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
	unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t;
typedef nvmlProcessInfo_v2_t nvmlProcessInfo_t; // the _v3 functions use this struct, too

typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
	unsigned gpuInstanceId, computeInstanceId;
	unsigned long long usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct {
	unsigned version, mode, numProcArrayEntries;
	nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t;
#define nvmlProcessDetailList_v1 NVML_STRUCT_VERSION(nvmlProcessDetailList_v1_t, 1)

typedef struct {
	unsigned gpu, memory;
} nvmlUtilization_t;

typedef struct {
	unsigned pid;
	unsigned long long timeStamp;
	unsigned smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
	char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];
	unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
} nvmlPciInfo_t;

typedef struct {
	unsigned multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount,
		sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
	unsigned long long memorySizeMB;
} nvmlDeviceAttributes_t;

typedef enum { NVML_FEATURE_DISABLED, NVML_FEATURE_ENABLED } nvmlEnableState_t;
typedef enum { NVML_TEMPERATURE_GPU } nvmlTemperatureSensors_t;
typedef enum { NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO, NVML_CLOCK_COUNT } nvmlClockType_t;
typedef enum {
	NVML_COMPUTEMODE_DEFAULT = 0,
	NVML_COMPUTEMODE_PROHIBITED = 2,
	NVML_COMPUTEMODE_EXCLUSIVE_PROCESS = 3,
} nvmlComputeMode_t;
typedef enum { NVML_BRAND_UNKNOWN = 0, NVML_BRAND_TESLA = 2, NVML_BRAND_NVIDIA = 14 } nvmlBrandType_t; // and others
typedef unsigned nvmlDeviceArchitecture_t;
enum {
	NVML_DEVICE_ARCH_TURING = 6,
	NVML_DEVICE_ARCH_AMPERE = 7,
	NVML_DEVICE_ARCH_ADA = 8,
	NVML_DEVICE_ARCH_HOPPER = 9,
	NVML_DEVICE_ARCH_BLACKWELL = 10,
	NVML_DEVICE_ARCH_UNKNOWN = -1,
};

// ---- properties of a device other than memory and processes ------------------------------------

enum {
	NVML_DEVICE_INFOROM_VERSION_BUFFER_SIZE = 16,
	NVML_DEVICE_PART_NUMBER_BUFFER_SIZE = 80,
	NVML_NVLINK_MAX_LINKS = 18,
	NVML_MAX_GPU_UTILIZATIONS = 8,
	NVML_MAX_THERMAL_SENSORS_PER_GPU = 3,
	NVML_PSTATE_UNKNOWN = 32,
	NVML_MAX_GPU_PERF_PSTATES = 16,
	NVML_FI_DEV_NVLINK_LINK_COUNT = 91,
	NVML_FI_DEV_POWER_INSTANT = 186,
};
typedef enum { NVML_CLOCK_ID_CURRENT, NVML_CLOCK_ID_CUSTOMER_BOOST_MAX = 3, NVML_CLOCK_ID_COUNT } nvmlClockId_t;
typedef unsigned nvmlPstates_t;
typedef enum {
	NVML_INFOROM_OEM,
	NVML_INFOROM_ECC,
	NVML_INFOROM_POWER,
	NVML_INFOROM_DEN,
	NVML_INFOROM_COUNT,
} nvmlInforomObject_t;
typedef enum {
	NVML_TEMPERATURE_THRESHOLD_SHUTDOWN,
	NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,
	NVML_TEMPERATURE_THRESHOLD_MEM_MAX,
	NVML_TEMPERATURE_THRESHOLD_GPU_MAX,
	NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MIN,
	NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR,
	NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_MAX,
	NVML_TEMPERATURE_THRESHOLD_GPS_CURR,
	NVML_TEMPERATURE_THRESHOLD_COUNT,
} nvmlTemperatureThresholds_t;
typedef enum { NVML_AFFINITY_SCOPE_NODE, NVML_AFFINITY_SCOPE_SOCKET } nvmlAffinityScope_t;
typedef enum {
	NVML_TOPOLOGY_INTERNAL = 0,
	NVML_TOPOLOGY_SINGLE = 10,
	NVML_TOPOLOGY_MULTIPLE = 20,
	NVML_TOPOLOGY_HOSTBRIDGE = 30,
	NVML_TOPOLOGY_NODE = 40,
	NVML_TOPOLOGY_SYSTEM = 50,
} nvmlGpuTopologyLevel_t;
typedef enum {
	NVML_P2P_CAPS_INDEX_READ,
	NVML_P2P_CAPS_INDEX_WRITE,
	NVML_P2P_CAPS_INDEX_NVLINK,
	NVML_P2P_CAPS_INDEX_ATOMICS,
	NVML_P2P_CAPS_INDEX_PCI,
	NVML_P2P_CAPS_INDEX_UNKNOWN,
} nvmlGpuP2PCapsIndex_t;
typedef enum {
	NVML_P2P_STATUS_OK,
	NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED,
	NVML_P2P_STATUS_GPU_NOT_SUPPORTED,
	NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED,
	NVML_P2P_STATUS_DISABLED_BY_REGKEY,
	NVML_P2P_STATUS_NOT_SUPPORTED,
	NVML_P2P_STATUS_UNKNOWN,
} nvmlGpuP2PStatus_t;
typedef struct {
	unsigned version, index;
	int signalType, target;
} nvmlCoolerInfo_v1_t;
#define nvmlCoolerInfo_v1 NVML_STRUCT_VERSION(nvmlCoolerInfo_v1_t, 1)

typedef struct {
	unsigned version, fan, speed;
} nvmlFanSpeedInfo_v1_t;
#define nvmlFanSpeedInfo_v1 NVML_STRUCT_VERSION(nvmlFanSpeedInfo_v1_t, 1)
typedef unsigned nvmlFanControlPolicy_t; // 0: by temperature, 1: manual

typedef enum { NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES, NVML_PCIE_UTIL_COUNT } nvmlPcieUtilCounter_t;
typedef enum {
	NVML_VALUE_TYPE_DOUBLE,
	NVML_VALUE_TYPE_UNSIGNED_INT,
	NVML_VALUE_TYPE_UNSIGNED_LONG,
	NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
	NVML_VALUE_TYPE_SIGNED_LONG_LONG,
	NVML_VALUE_TYPE_SIGNED_INT,
	NVML_VALUE_TYPE_UNSIGNED_SHORT,
} nvmlValueType_t;

typedef union {
	double dVal;
	int siVal;
	unsigned uiVal;
	unsigned long ulVal;
	unsigned long long ullVal;
	signed long long sllVal;
	unsigned short usVal;
} nvmlValue_t;

typedef struct {
	unsigned fieldId, scopeId;
	long long timestamp, latencyUsec;
	nvmlValueType_t valueType;
	nvmlReturn_t nvmlReturn;
	nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct {
	unsigned version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
} nvmlPciInfoExt_v1_t;
#define nvmlPciInfoExt_v1 NVML_STRUCT_VERSION(nvmlPciInfoExt_v1_t, 1)

typedef struct {
	unsigned version, value;
} nvmlDeviceAddressingMode_v1_t;
#define nvmlDeviceAddressingMode_v1 NVML_STRUCT_VERSION(nvmlDeviceAddressingMode_v1_t, 1)

typedef struct {
	unsigned isC2cEnabled;
} nvmlC2cModeInfo_v1_t;

typedef struct {
	unsigned version;
	nvmlClockType_t type;
	nvmlPstates_t pstate;
	int clockOffsetMHz, minClockOffsetMHz, maxClockOffsetMHz;
} nvmlClockOffset_v1_t;
#define nvmlClockOffset_v1 NVML_STRUCT_VERSION(nvmlClockOffset_v1_t, 1)

typedef struct {
	unsigned version;
	nvmlTemperatureSensors_t sensorType;
	int temperature;
} nvmlTemperature_v1_t;
#define nvmlTemperature_v1 NVML_STRUCT_VERSION(nvmlTemperature_v1_t, 1)

typedef struct {
	unsigned version;
	int marginTemperature;
} nvmlMarginTemperature_v1_t;
#define nvmlMarginTemperature_v1 NVML_STRUCT_VERSION(nvmlMarginTemperature_v1_t, 1)

typedef struct {
	unsigned count;
	struct {
		int controller, defaultMinTemp, defaultMaxTemp, currentTemp, target;
	} sensor[NVML_MAX_THERMAL_SENSORS_PER_GPU];
} nvmlGpuThermalSettings_t;

typedef struct {
	unsigned flags;
	struct {
		unsigned bIsPresent, percentage, incThreshold, decThreshold;
	} utilization[NVML_MAX_GPU_UTILIZATIONS];
} nvmlGpuDynamicPstatesInfo_t;

typedef struct {
	unsigned version, bChannelRepairPending, bTpcRepairPending;
} nvmlRepairStatus_v1_t;
#define nvmlRepairStatus_v1 NVML_STRUCT_VERSION(nvmlRepairStatus_v1_t, 1)

typedef struct {
	unsigned version;
	char branch[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
} nvmlSystemDriverBranchInfo_v1_t;
#define nvmlSystemDriverBranchInfo_v1 NVML_STRUCT_VERSION(nvmlSystemDriverBranchInfo_v1_t, 1)

typedef struct nvmlEventSet_st *nvmlEventSet_t;
enum {
	NVML_EVENT_TYPE_SINGLE_BIT_ECC = 1,
	NVML_EVENT_TYPE_DOUBLE_BIT_ECC = 2,
	NVML_EVENT_TYPE_XID_CRITICAL = 8,
};
typedef struct {
	nvmlDevice_t device;
	unsigned long long eventType, eventData;
	unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct nvmlSystemEventSet_st *nvmlSystemEventSet_t;
typedef struct {
	unsigned version;
	nvmlSystemEventSet_t set;
} nvmlSystemEventSetCreateRequest_v1_t;
typedef nvmlSystemEventSetCreateRequest_v1_t nvmlSystemEventSetFreeRequest_v1_t;
#define nvmlSystemEventSetCreateRequest_v1 NVML_STRUCT_VERSION(nvmlSystemEventSetCreateRequest_v1_t, 1)
typedef struct {
	unsigned version;
	unsigned long long eventTypes;
	nvmlSystemEventSet_t set;
} nvmlSystemRegisterEventRequest_v1_t;
#define nvmlSystemRegisterEventRequest_v1 NVML_STRUCT_VERSION(nvmlSystemRegisterEventRequest_v1_t, 1)
typedef struct {
	unsigned long long eventType;
	unsigned gpuId;
} nvmlSystemEventData_v1_t;
typedef struct {
	unsigned version, timeoutms;
	nvmlSystemEventSet_t set;
	nvmlSystemEventData_v1_t *data;
	unsigned dataSize, numEvent;
} nvmlSystemEventSetWaitRequest_v1_t;
#define nvmlSystemEventSetWaitRequest_v1 NVML_STRUCT_VERSION(nvmlSystemEventSetWaitRequest_v1_t, 1)

// Prototypes of the functions that are called, implemented or interposed.
nvmlReturn_t nvmlInit(void);
nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlInitWithFlags(unsigned flags);
nvmlReturn_t nvmlShutdown(void);
const char *nvmlErrorString(nvmlReturn_t result);
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length);
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length);
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion);
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion);
nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length);
nvmlReturn_t nvmlDeviceGetCount(unsigned *deviceCount);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *deviceCount);
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length);
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned length);
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *type);
nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *arch);
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minorNumber);
nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes);
nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *infoCount,
						  nvmlProcessInfo_v1_t *infos);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *infoCount,
						     nvmlProcessInfo_v2_t *infos);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount,
						     nvmlProcessInfo_t *infos);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned *infoCount,
						   nvmlProcessInfo_v1_t *infos);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned *infoCount,
						      nvmlProcessInfo_v2_t *infos);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount,
						      nvmlProcessInfo_t *infos);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned *infoCount,
						     nvmlProcessInfo_v1_t *infos);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *infoCount,
							nvmlProcessInfo_v2_t *infos);
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount,
							nvmlProcessInfo_t *infos);
nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *plist);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization);
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *utilization,
					     unsigned *processSamplesCount, unsigned long long lastSeenTimeStamp);
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor);
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode);
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode);
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *currentMode, unsigned *pendingMode);
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending);
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *power);
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *limit);
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned *temp);
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *clock);
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *clock);
nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_v1_t *branchInfo, unsigned length);
nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned cpuNumber, unsigned *count, nvmlDevice_t *deviceArray);
nvmlReturn_t nvmlSystemEventSetCreate(nvmlSystemEventSetCreateRequest_v1_t *request);
nvmlReturn_t nvmlSystemEventSetFree(nvmlSystemEventSetFreeRequest_v1_t *request);
nvmlReturn_t nvmlSystemRegisterEvents(nvmlSystemRegisterEventRequest_v1_t *request);
nvmlReturn_t nvmlSystemEventSetWait(nvmlSystemEventSetWaitRequest_v1_t *request);
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
						 nvmlGpuTopologyLevel_t *pathInfo);
nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned *count,
					      nvmlDevice_t *deviceArray);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2, nvmlGpuP2PCapsIndex_t p2pIndex,
				    nvmlGpuP2PStatus_t *p2pStatus);
nvmlReturn_t nvmlDeviceGetModuleId(nvmlDevice_t device, unsigned *moduleId);
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *node);
nvmlReturn_t nvmlDeviceGetC2cModeInfoV(nvmlDevice_t device, nvmlC2cModeInfo_v1_t *c2cModeInfo);
nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode);
nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_v1_t *mode);
nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *isMigDevice);
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *activationStatus);
nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count);
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *migDevice);
nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned nodeSetSize, unsigned long *nodeSet,
					 nvmlAffinityScope_t scope);
nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned cpuSetSize, unsigned long *cpuSet,
						 nvmlAffinityScope_t scope);
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned cpuSetSize, unsigned long *cpuSet);
nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t device);
nvmlReturn_t nvmlDeviceClearCpuAffinity(nvmlDevice_t device);
nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t clockType, nvmlClockId_t clockId,
				unsigned *clockMHz);
nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, nvmlClockType_t clockType, unsigned *clockMHz);
nvmlReturn_t nvmlDeviceGetMinMaxClockOfPState(nvmlDevice_t device, nvmlClockType_t type, nvmlPstates_t pstate,
					      unsigned *minClockMHz, unsigned *maxClockMHz);
nvmlReturn_t nvmlDeviceGetClockOffsets(nvmlDevice_t device, nvmlClockOffset_v1_t *info);
nvmlReturn_t nvmlDeviceGetAutoBoostedClocksEnabled(nvmlDevice_t device, nvmlEnableState_t *isEnabled,
						   nvmlEnableState_t *defaultIsEnabled);
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *clocksEventReasons);
nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device,
						      unsigned long long *supportedClocksEventReasons);
nvmlReturn_t nvmlDeviceGetCoolerInfo(nvmlDevice_t device, nvmlCoolerInfo_v1_t *coolerInfo);
nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned *numFans);
nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *speed);
nvmlReturn_t nvmlDeviceGetFanSpeedRPM(nvmlDevice_t device, nvmlFanSpeedInfo_v1_t *fanSpeed);
nvmlReturn_t nvmlDeviceGetTargetFanSpeed(nvmlDevice_t device, unsigned fan, unsigned *targetSpeed);
nvmlReturn_t nvmlDeviceGetMinMaxFanSpeed(nvmlDevice_t device, unsigned *minSpeed, unsigned *maxSpeed);
nvmlReturn_t nvmlDeviceGetFanControlPolicy_v2(nvmlDevice_t device, unsigned fan, nvmlFanControlPolicy_t *policy);
nvmlReturn_t nvmlDeviceSetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned speed);
nvmlReturn_t nvmlDeviceSetDefaultFanSpeed_v2(nvmlDevice_t device, unsigned fan);
nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *display);
nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *isActive);
nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *eventTypes);
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set);
nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set);
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set);
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeoutms);
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeoutms);
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values);
nvmlReturn_t nvmlDeviceClearFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values);
nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, nvmlInforomObject_t object, char *version,
					 unsigned length);
nvmlReturn_t nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char *version, unsigned length);
nvmlReturn_t nvmlDeviceGetInforomConfigurationChecksum(nvmlDevice_t device, unsigned *checksum);
nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device);
nvmlReturn_t nvmlDeviceGetLastBBXFlushTime(nvmlDevice_t device, unsigned long long *timestamp,
					   unsigned long *durationUs);
nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *partNumber, unsigned length);
nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version);
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t *isActive);
nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *pci);
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *maxLinkGen);
nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *maxLinkGenDevice);
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *maxLinkWidth);
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *currLinkGen);
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *currLinkWidth);
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned *value);
nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned *value);
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t *pState);
nvmlReturn_t nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t device, nvmlPstates_t *pstates, unsigned size);
nvmlReturn_t nvmlDeviceGetDynamicPstatesInfo(nvmlDevice_t device, nvmlGpuDynamicPstatesInfo_t *pDynamicPstatesInfo);
nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t device, nvmlRepairStatus_v1_t *repairStatus);
nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *temperature);
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t thresholdType,
					       unsigned *temp);
nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_v1_t *marginTempInfo);
nvmlReturn_t nvmlDeviceGetThermalSettings(nvmlDevice_t device, unsigned sensorIndex,
					  nvmlGpuThermalSettings_t *pThermalSettings);
