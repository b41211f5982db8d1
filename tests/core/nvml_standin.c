// A small NVML with features that neither the simulator nor a data-centre GPU has: fans, MIG devices, events, links, a
// lost GPU. It lacks most functions, as the library of an older driver does.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC visibility push(default)
#include "abi/nvml_abi.h"

struct nvmlDevice_st {
	const char *uuid;
	unsigned fan_speed, fan_policy, persistence;
};
static struct nvmlDevice_st whole = {.uuid = "GPU-11111111-2222-3333-4444-555555555555", .fan_speed = 30},
			    part = {.uuid = "MIG-66666666-7777-8888-9999-aaaaaaaaaaaa"};
struct nvmlEventSet_st {
	unsigned long long types;
	int waited;
};
struct nvmlSystemEventSet_st {
	unsigned long long types;
};

nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
	const char *answer = getenv("STANDIN_INIT"), *slow = getenv("STANDIN_SLOW");

	if (slow)
		usleep((unsigned)atoi(slow) * 1000);
	return answer ? (nvmlReturn_t)atoi(answer) : NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	strncpy(version, getenv("STANDIN_VERSION") ? getenv("STANDIN_VERSION") : "550.54.14", length);
	return NVML_SUCCESS;
}

// ---- handles ----

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *deviceCount)
{
	*deviceCount = 1;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	*device = &whole;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	*device = strcmp(uuid, part.uuid) == 0 ? &part : &whole;
	return strcmp(uuid, (*device)->uuid) == 0 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
	strncpy(uuid, device->uuid, length);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
	strncpy(name, "Stand-in", length);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	if (device == &part)
		return NVML_ERROR_NOT_SUPPORTED;
	*pci = (nvmlPciInfo_t){
		.bus = 0x3b, .pciDeviceId = 0x123410de, .pciSubSystemId = 7, .busId = "00000000:3B:00.0"};
	return NVML_SUCCESS;
}

// Returns known brands, and one that the library does not know.
nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *type)
{
	*type = (nvmlBrandType_t)(device == &whole ? 15 : 77);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *arch)
{
	*arch = 13;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_v1_t *mode)
{
	mode->value = 2;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
	*mode = (nvmlEnableState_t)device->persistence;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
	device->persistence = mode;
	return NVML_SUCCESS;
}

// ---- memory and processes ----

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	*memory = (nvmlMemory_t){.total = 1000, .free = 600, .used = 400};
	return NVML_SUCCESS;
}

// Returns more processes with each call, up to 100.
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *infoCount,
						     nvmlProcessInfo_v2_t *infos)
{
	static unsigned have = 20;
	unsigned room = *infoCount;

	*infoCount = have;
	if (have > room) {
		have = have + 40 < 100 ? have + 40 : 100;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	for (unsigned i = 0; i < have; i++)
		infos[i] = (nvmlProcessInfo_v2_t){i + 1, i ? i * 10 : NVML_VALUE_NOT_AVAILABLE_ULL,
						  i == 1 ? 5 : NVML_NO_INSTANCE, i == 1 ? 6 : NVML_NO_INSTANCE};
	return NVML_SUCCESS;
}

// ---- MIG ----

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *currentMode, unsigned *pendingMode)
{
	if (device == &part)
		return NVML_ERROR_INVALID_ARGUMENT;
	*currentMode = 1;
	*pendingMode = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *activationStatus)
{
	*activationStatus = mode ? NVML_SUCCESS : NVML_ERROR_IN_USE;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *count)
{
	*count = 7;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *migDevice)
{
	if (index != 3)
		return NVML_ERROR_NOT_FOUND;
	*migDevice = &part;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice, nvmlDevice_t *device)
{
	*device = &whole;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	if (device != &part)
		return NVML_ERROR_NOT_SUPPORTED;
	*attributes = (nvmlDeviceAttributes_t){16, 2, 3, 4, 5, 6, 7, 8, 9000};
	return NVML_SUCCESS;
}

// ---- links and topology ----

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *currLinkGen)
{
	*currLinkGen = 4;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t *isActive)
{
	*isActive = link < 2 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
	return link < 4 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version)
{
	static const unsigned versions[] = {6, 3, 99};

	if (link > 2)
		return NVML_ERROR_NOT_SUPPORTED;
	*version = versions[link];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned cpuSetSize, unsigned long *cpuSet,
						 nvmlAffinityScope_t scope)
{
	cpuSet[0] = 0x8000000000000005;
	cpuSet[2] = 1;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned *count,
					      nvmlDevice_t *deviceArray)
{
	*count = 1;
	if (deviceArray)
		*deviceArray = &part;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
						 nvmlGpuTopologyLevel_t *pathInfo)
{
	*pathInfo = device1 == device2 ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_MULTIPLE;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2, nvmlGpuP2PCapsIndex_t p2pIndex,
				    nvmlGpuP2PStatus_t *p2pStatus)
{
	*p2pStatus = (nvmlGpuP2PStatus_t)(p2pIndex == NVML_P2P_CAPS_INDEX_PCI ? 55 : p2pIndex);
	return NVML_SUCCESS;
}

// ---- states ----

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t *pState)
{
	*pState = NVML_PSTATE_UNKNOWN;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t device, nvmlPstates_t *pstates, unsigned size)
{
	memcpy(pstates, (nvmlPstates_t[]){0, 2, 8, NVML_PSTATE_UNKNOWN}, 4 * sizeof *pstates);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAutoBoostedClocksEnabled(nvmlDevice_t device, nvmlEnableState_t *isEnabled,
						   nvmlEnableState_t *defaultIsEnabled)
{
	*isEnabled = NVML_FEATURE_DISABLED;
	*defaultIsEnabled = NVML_FEATURE_ENABLED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *temperature)
{
	return NVML_ERROR_GPU_IS_LOST;
}

nvmlReturn_t nvmlDeviceGetThermalSettings(nvmlDevice_t device, unsigned sensorIndex, nvmlGpuThermalSettings_t *settings)
{
	*settings = (nvmlGpuThermalSettings_t){2, {{1, -10, 110, 42, 1}, {3, 0, 90, 55, 2}}};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCoolerInfo(nvmlDevice_t device, nvmlCoolerInfo_v1_t *coolerInfo)
{
	if (coolerInfo->version != nvmlCoolerInfo_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	coolerInfo->signalType = 2;
	coolerInfo->target = 2 | 4;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned *numFans)
{
	*numFans = 2;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *speed)
{
	*speed = device->fan_speed;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned speed)
{
	device->fan_speed = speed;
	device->fan_policy = 1;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetDefaultFanSpeed_v2(nvmlDevice_t device, unsigned fan)
{
	device->fan_speed = 30;
	device->fan_policy = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFanControlPolicy_v2(nvmlDevice_t device, unsigned fan, nvmlFanControlPolicy_t *policy)
{
	*policy = device->fan_policy;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFanSpeedRPM(nvmlDevice_t device, nvmlFanSpeedInfo_v1_t *fanSpeed)
{
	if (fanSpeed->version != nvmlFanSpeedInfo_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	fanSpeed->speed = 1000 + fanSpeed->fan;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinMaxFanSpeed(nvmlDevice_t device, unsigned *minSpeed, unsigned *maxSpeed)
{
	*minSpeed = 20;
	*maxSpeed = 90;
	return NVML_SUCCESS;
}

// ---- the board ----

nvmlReturn_t nvmlDeviceGetLastBBXFlushTime(nvmlDevice_t device, unsigned long long *timestamp,
					   unsigned long *durationUs)
{
	*timestamp = 1234567;
	*durationUs = 89;
	return device == &whole ? NVML_SUCCESS : NVML_ERROR_GPU_IS_LOST;
}

nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *partNumber, unsigned length)
{
	strncpy(partNumber, "900-1", length);
	return NVML_SUCCESS;
}

// Returns the version of a record. Fails for NVML_INFOROM_DEN, a kind of record that old devices lack.
nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, nvmlInforomObject_t object, char *version,
					 unsigned length)
{
	if (object == NVML_INFOROM_DEN)
		return NVML_ERROR_INVALID_ARGUMENT;
	strncpy(version, object == NVML_INFOROM_ECC ? "6.16" : "2.1", length);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
	return NVML_ERROR_CORRUPTED_INFOROM;
}

// Returns a value of each type: the id of the field chooses the type.
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values)
{
	for (int i = 0; i < valuesCount; i++) {
		nvmlFieldValue_t *value = &values[i];
		value->valueType = (nvmlValueType_t)value->fieldId;
		value->timestamp = 1000 + i;
		value->latencyUsec = value->scopeId;
		if (value->valueType == NVML_VALUE_TYPE_DOUBLE)
			value->value.dVal = 2.5;
		else if (value->valueType == NVML_VALUE_TYPE_UNSIGNED_SHORT)
			value->value.usVal = 65535;
		else if (value->valueType == NVML_VALUE_TYPE_SIGNED_INT)
			value->value.siVal = -7;
		else
			value->value.sllVal = -1;
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceClearFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values)
{
	return NVML_SUCCESS;
}

// ---- events ----

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	*set = calloc(1, sizeof **set);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	free(set);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set)
{
	set->types |= eventTypes;
	return eventTypes & 1 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

// The first two waits for an event set time out at once, as after an interrupt. Later waits return an event.
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeoutms)
{
	if (set->waited++ < 2)
		return NVML_ERROR_TIMEOUT;
	*data = (nvmlEventData_t){&whole, set->types, 79, 3, 1};
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemEventSetCreate(nvmlSystemEventSetCreateRequest_v1_t *request)
{
	request->set = calloc(1, sizeof *request->set);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemEventSetFree(nvmlSystemEventSetFreeRequest_v1_t *request)
{
	free(request->set);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemRegisterEvents(nvmlSystemRegisterEventRequest_v1_t *request)
{
	request->set->types = request->eventTypes;
	return request->eventTypes == 1 ? NVML_ERROR_NO_PERMISSION : NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemEventSetWait(nvmlSystemEventSetWaitRequest_v1_t *request)
{
	const nvmlSystemEventData_v1_t events[] = {{1, 0x9900}, {2, 0x3b00}};

	request->numEvent = request->dataSize < 2 ? request->dataSize : 2;
	memcpy(request->data, events, request->numEvent * sizeof *events);
	return NVML_SUCCESS;
}
