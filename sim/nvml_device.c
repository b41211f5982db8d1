// Implements NVML's figures of a device. A figure is configured, or measured, or that of an idle H200.
#include "nvml.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "region_time.h"

static nvmlDeviceArchitecture_t get_architecture(const struct nvml_state *now)
{
	switch (now->config.cc_major) {
	case 7:
		return now->config.cc_minor >= 5 ? NVML_DEVICE_ARCH_TURING : 5; // Volta
	case 8:
		return now->config.cc_minor == 9 ? NVML_DEVICE_ARCH_ADA : NVML_DEVICE_ARCH_AMPERE;
	case 9:
		return NVML_DEVICE_ARCH_HOPPER;
	default:
		return NVML_DEVICE_ARCH_BLACKWELL;
	}
}

NVML_NUMBER(nvmlDeviceGetIndex, unsigned, index, (unsigned)device->index)
NVML_NUMBER(nvmlDeviceGetMinorNumber, unsigned, minorNumber, (unsigned)device->index)
NVML_NUMBER(nvmlDeviceGetBrand, nvmlBrandType_t, type, NVML_BRAND_NVIDIA)
NVML_NUMBER(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, arch, get_architecture(now))
NVML_NUMBER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, mode,
	    now->config.persistence ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED)
NVML_NUMBER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, mode, (nvmlComputeMode_t)now->config.mode)
NVML_NUMBER(nvmlDeviceGetPowerUsage, unsigned, power, 75000)
NVML_NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, limit, 700000)

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(device, &now));
	return nvml_text(uuid, length, device->uuid);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(device, &now));
	return nvml_text(name, length, now->config.names[device->index]);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(device, &now));
	return attributes ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT; // only MIG devices have attributes
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
	return nvmlDeviceGetAttributes_v2(device, attributes);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	NVML_ENTER(device, !memory);
	memory->total = now->config.memory;
	memory->used = region_used(now->region, device->index);
	memory->free = memory->total - memory->used;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	NVML_ENTER(device, !memory);
	if (memory->version != nvmlMemory_v2)
		return NVML_ERROR_FUNCTION_NOT_FOUND; // the real library returns this, too
	memory->total = now->config.memory;
	memory->reserved = 0;
	memory->used = region_used(now->region, device->index);
	memory->free = memory->total - memory->used;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory)
{
	NVML_ENTER(device, !bar1Memory);
	*bar1Memory = (nvmlBAR1Memory_t){.bar1Total = now->config.memory, .bar1Free = now->config.memory};
	return NVML_SUCCESS;
}

// Returns how busy the device was between two readings, in percent. It uses the two latest readings that are at least a
// sixth of a second apart.
static unsigned get_busy_rate(struct nvml_state *now, struct nvmlDevice_st *device)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	uint64_t ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
	uint64_t busy = now->region->header->config.slice_ns
				? region_time_view(now->region, (int)device->index).busy_ns
				: atomic_load(&now->region->header->busy_ns[device->index]);
	uint64_t seen = __atomic_load_n(&device->seen_ns, __ATOMIC_RELAXED);
	if (ns - seen > 166000000u) {
		uint64_t rate =
			seen ? 100 * (busy - __atomic_load_n(&device->seen_busy, __ATOMIC_RELAXED)) / (ns - seen) : 0;
		__atomic_store_n(&device->rate, rate > 100 ? 100 : (unsigned)rate, __ATOMIC_RELAXED);
		__atomic_store_n(&device->seen_busy, busy, __ATOMIC_RELAXED);
		__atomic_store_n(&device->seen_ns, ns, __ATOMIC_RELAXED);
	}
	return __atomic_load_n(&device->rate, __ATOMIC_RELAXED);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	NVML_ENTER(device, !utilization);
	utilization->gpu = get_busy_rate(now, device);
	utilization->memory = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	NVML_ENTER(device, !major || !minor);
	*major = (int)now->config.cc_major;
	*minor = (int)now->config.cc_minor;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	NVML_ENTER(device, !pci);
	memset(pci, 0, sizeof *pci);
	snprintf(pci->busId, sizeof pci->busId, "%s", device->pci);
	snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%s", device->pci + 4);
	pci->bus = (unsigned)device->index + 1;
	pci->pciDeviceId = NVIDIA;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetPciInfo_v3(device, pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetPciInfo_v3(device, pci);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *currentMode, unsigned *pendingMode)
{
	NVML_ENTER(device, !currentMode || !pendingMode);
	*currentMode = *pendingMode = now->config.mig;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
	NVML_ENTER(device, !current || !pending);
	*current = *pending = NVML_FEATURE_ENABLED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType, unsigned *temp)
{
	NVML_ENTER(device, !temp || sensorType != NVML_TEMPERATURE_GPU);
	*temp = 30;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *clock)
{
	NVML_ENTER(device, !clock || (unsigned)type >= NVML_CLOCK_COUNT);
	*clock = type == NVML_CLOCK_MEM ? 3201 : 1980;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned *clock)
{
	return nvmlDeviceGetClockInfo(device, type, clock);
}
