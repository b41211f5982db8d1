// Implements NVML's constant figures of a device: clocks, states, links, temperatures, the board. Figures and errors
// are those of an idle H200.
#include "nvml.h"

#include <stdio.h>
#include <string.h>

enum { MHZ_MOST = 1980, MHZ_LEAST = 345, MHZ_MEMORY = 3201, CELSIUS = 30, CELSIUS_MOST = 87, IDLE = 1 };

// ---- identity --------------------------------------------------------------------------------

NVML_NUMBER(nvmlDeviceGetModuleId, unsigned, moduleId, (unsigned)device->index)
NVML_NUMBER(nvmlDeviceGetDisplayMode, nvmlEnableState_t, display, NVML_FEATURE_ENABLED)
NVML_NUMBER(nvmlDeviceGetDisplayActive, nvmlEnableState_t, isActive, NVML_FEATURE_DISABLED)
NVML_NUMBER(nvmlDeviceGetInforomConfigurationChecksum, unsigned, checksum, 0)

static nvmlReturn_t copy_text(nvmlDevice_t device, char *to, unsigned length, const char *text)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(device, &now));
	return nvml_text(to, length, text);
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned length)
{
	struct nvml_state *now;
	char text[NVML_DEVICE_SERIAL_BUFFER_SIZE];

	NVML_TRY(nvml_device(device, &now));
	snprintf(text, sizeof text, "%013u", device->index + 1);
	return nvml_text(serial, length, text);
}

nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *partNumber, unsigned length)
{
	return copy_text(device, partNumber, length, "000-00000-0000-000");
}

nvmlReturn_t nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char *version, unsigned length)
{
	return copy_text(device, version, length, "0000.0000.00.00");
}

nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, nvmlInforomObject_t object, char *version,
					 unsigned length)
{
	NVML_ENTER(device, (unsigned)object >= NVML_INFOROM_COUNT);
	if (object != NVML_INFOROM_OEM && object != NVML_INFOROM_ECC)
		return NVML_ERROR_NOT_SUPPORTED;
	return nvml_text(version, length, object == NVML_INFOROM_OEM ? "2.1" : "7.16");
}

nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
	struct nvml_state *now;

	return nvml_device(device, &now);
}

// Returns NVML_ERROR_NOT_SUPPORTED if the arguments are valid.
static nvmlReturn_t report_not_supported(nvmlDevice_t device, const void *result)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(device, &now));
	return result ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

// Always fails: only devices that are coherent with the processor have a NUMA node.
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *node)
{
	return report_not_supported(device, node);
}

nvmlReturn_t nvmlDeviceGetLastBBXFlushTime(nvmlDevice_t device, unsigned long long *timestamp,
					   unsigned long *durationUs)
{
	NVML_ENTER(device, !timestamp || !durationUs);
	*timestamp = 0;
	*durationUs = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetC2cModeInfoV(nvmlDevice_t device, nvmlC2cModeInfo_v1_t *c2cModeInfo)
{
	NVML_ENTER(device, !c2cModeInfo);
	c2cModeInfo->isC2cEnabled = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_v1_t *mode)
{
	NVML_ENTER_VERSION(device, mode, nvmlDeviceAddressingMode_v1);
	mode->value = 0; // neither HMM nor ATS: kernels cannot access pageable memory
	return NVML_SUCCESS;
}

// Always fails: all processes share the simulated node, so none may change it.
nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(device, &now));
	return (unsigned)mode > NVML_FEATURE_ENABLED ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NO_PERMISSION;
}

nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t device, nvmlRepairStatus_v1_t *repairStatus)
{
	NVML_ENTER_VERSION(device, repairStatus, nvmlRepairStatus_v1);
	repairStatus->bChannelRepairPending = repairStatus->bTpcRepairPending = 0;
	return NVML_SUCCESS;
}

// ---- clocks and states -----------------------------------------------------------------------

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t clockType, nvmlClockId_t clockId,
				unsigned *clockMHz)
{
	NVML_ENTER(device, (unsigned)clockId >= NVML_CLOCK_ID_COUNT);
	return nvmlDeviceGetClockInfo(device, clockType, clockMHz);
}

nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, nvmlClockType_t clockType, unsigned *clockMHz)
{
	return nvmlDeviceGetClockInfo(device, clockType, clockMHz);
}

nvmlReturn_t nvmlDeviceGetMinMaxClockOfPState(nvmlDevice_t device, nvmlClockType_t type, nvmlPstates_t pstate,
					      unsigned *minClockMHz, unsigned *maxClockMHz)
{
	NVML_ENTER(device, !minClockMHz || !maxClockMHz || (unsigned)type >= NVML_CLOCK_COUNT ||
				   pstate >= NVML_MAX_GPU_PERF_PSTATES);
	if (pstate != 0)
		return NVML_ERROR_NOT_SUPPORTED; // 0 is the only state
	*minClockMHz = type == NVML_CLOCK_MEM ? MHZ_MEMORY : MHZ_LEAST;
	*maxClockMHz = type == NVML_CLOCK_MEM ? MHZ_MEMORY : MHZ_MOST;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockOffsets(nvmlDevice_t device, nvmlClockOffset_v1_t *info)
{
	NVML_ENTER_VERSION(device, info, nvmlClockOffset_v1);
	if ((unsigned)info->type >= NVML_CLOCK_COUNT || info->pstate >= NVML_MAX_GPU_PERF_PSTATES)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (info->pstate != 0)
		return NVML_ERROR_NOT_SUPPORTED;
	info->clockOffsetMHz = info->minClockOffsetMHz = info->maxClockOffsetMHz = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAutoBoostedClocksEnabled(nvmlDevice_t device, nvmlEnableState_t *isEnabled,
						   nvmlEnableState_t *defaultIsEnabled)
{
	return report_not_supported(device, defaultIsEnabled ? isEnabled : NULL);
}

NVML_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, clocksEventReasons, IDLE)
NVML_NUMBER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, supportedClocksEventReasons, 0x1ff)
NVML_NUMBER(nvmlDeviceGetPerformanceState, nvmlPstates_t, pState, 0)

nvmlReturn_t nvmlDeviceGetSupportedPerformanceStates(nvmlDevice_t device, nvmlPstates_t *pstates, unsigned size)
{
	NVML_ENTER(device, !pstates);
	if (size < sizeof *pstates)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < size / sizeof *pstates; i++)
		pstates[i] = i == 0 ? 0 : NVML_PSTATE_UNKNOWN;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDynamicPstatesInfo(nvmlDevice_t device, nvmlGpuDynamicPstatesInfo_t *pDynamicPstatesInfo)
{
	nvmlUtilization_t rates;

	if (!pDynamicPstatesInfo)
		return report_not_supported(device, NULL);
	NVML_TRY(nvmlDeviceGetUtilizationRates(device, &rates));
	memset(pDynamicPstatesInfo, 0, sizeof *pDynamicPstatesInfo);
	pDynamicPstatesInfo->utilization[0].bIsPresent = 1; // domain 0: the GPU
	pDynamicPstatesInfo->utilization[0].percentage = rates.gpu;
	return NVML_SUCCESS;
}

// ---- cooling: the board has no fans, only the chassis --------------------------------------------

nvmlReturn_t nvmlDeviceGetCoolerInfo(nvmlDevice_t device, nvmlCoolerInfo_v1_t *coolerInfo)
{
	return report_not_supported(device, coolerInfo);
}

NVML_NUMBER(nvmlDeviceGetNumFans, unsigned, numFans, 0)

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *speed)
{
	return report_not_supported(device, speed);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *temperature)
{
	NVML_ENTER_VERSION(device, temperature, nvmlTemperature_v1);
	if (temperature->sensorType != NVML_TEMPERATURE_GPU)
		return NVML_ERROR_INVALID_ARGUMENT;
	temperature->temperature = CELSIUS;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t thresholdType,
					       unsigned *temp)
{
	static const unsigned thresholds[] = {[NVML_TEMPERATURE_THRESHOLD_SHUTDOWN] = CELSIUS_MOST + 8,
					      [NVML_TEMPERATURE_THRESHOLD_SLOWDOWN] = CELSIUS_MOST + 2,
					      [NVML_TEMPERATURE_THRESHOLD_MEM_MAX] = 95,
					      [NVML_TEMPERATURE_THRESHOLD_GPU_MAX] = CELSIUS_MOST};
	NVML_ENTER(device, !temp || (unsigned)thresholdType >= NVML_TEMPERATURE_THRESHOLD_COUNT);
	if (thresholdType > NVML_TEMPERATURE_THRESHOLD_GPU_MAX)
		return NVML_ERROR_NOT_SUPPORTED;
	*temp = thresholds[thresholdType];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_v1_t *marginTempInfo)
{
	NVML_ENTER_VERSION(device, marginTempInfo, nvmlMarginTemperature_v1);
	marginTempInfo->marginTemperature = CELSIUS_MOST - CELSIUS;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetThermalSettings(nvmlDevice_t device, unsigned sensorIndex,
					  nvmlGpuThermalSettings_t *pThermalSettings)
{
	enum { GPU = 1 }; // controller and target
	NVML_ENTER(device, !pThermalSettings);
	(void)sensorIndex; // the device has only one sensor
	*pThermalSettings = (nvmlGpuThermalSettings_t){
		.count = 1, .sensor[0] = {.controller = GPU, .currentTemp = CELSIUS, .target = GPU}};
	return NVML_SUCCESS;
}

// ---- links -------------------------------------------------------------------------------------

NVML_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, maxLinkGen, 5)
NVML_NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned, maxLinkGenDevice, 5)
NVML_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, maxLinkWidth, 16)
NVML_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, currLinkGen, 5)
NVML_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, currLinkWidth, 16)
NVML_NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, value, 0)

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned *value)
{
	NVML_ENTER(device, !value || (unsigned)counter >= NVML_PCIE_UTIL_COUNT);
	*value = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *pci)
{
	NVML_ENTER_VERSION(device, pci, nvmlPciInfoExt_v1);
	*pci = (nvmlPciInfoExt_v1_t){.version = pci->version,
				     .bus = (unsigned)device->index + 1,
				     .pciDeviceId = NVIDIA,
				     .baseClass = 3,
				     .subClass = 2};
	snprintf(pci->busId, sizeof pci->busId, "%s", device->pci);
	return NVML_SUCCESS;
}

// The simulated devices have no NVLink.
static nvmlReturn_t report_no_link(nvmlDevice_t device, unsigned link, const void *result)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(device, &now));
	(void)link; // every number is accepted
	return result ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version)
{
	return report_no_link(device, link, version);
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t *isActive)
{
	return report_no_link(device, link, isActive);
}
