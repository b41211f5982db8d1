// Implements NVML's topology: processors, memory and devices that are near a device. Also implements MIG.
#include "nvml.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

enum { LONG_BITS = 8 * sizeof(unsigned long) };

// Sets all bits below `count` in a set of `size` words.
static nvmlReturn_t fill_set(unsigned long *set, unsigned size, long count)
{
	memset(set, 0, size * sizeof *set);
	if ((long)(size * LONG_BITS) < count)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (long i = 0; i < count; i++)
		set[i / LONG_BITS] |= 1ul << i % LONG_BITS;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned nodeSetSize, unsigned long *nodeSet,
					 nvmlAffinityScope_t scope)
{
	NVML_ENTER(device, !nodeSet || nodeSetSize == 0 || (unsigned)scope > NVML_AFFINITY_SCOPE_SOCKET);
	return fill_set(nodeSet, nodeSetSize, 1);
}

nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned cpuSetSize, unsigned long *cpuSet,
						 nvmlAffinityScope_t scope)
{
	NVML_ENTER(device, !cpuSet || cpuSetSize == 0 || (unsigned)scope > NVML_AFFINITY_SCOPE_SOCKET);
	return fill_set(cpuSet, cpuSetSize, sysconf(_SC_NPROCESSORS_CONF));
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned cpuSetSize, unsigned long *cpuSet)
{
	return nvmlDeviceGetCpuAffinityWithinScope(device, cpuSetSize, cpuSet, NVML_AFFINITY_SCOPE_NODE);
}

// Lets the calling thread run on all processors that it may use: all are near the device.
static nvmlReturn_t clear_affinity(nvmlDevice_t device)
{
	struct nvml_state *now;
	cpu_set_t all;

	NVML_TRY(nvml_device(device, &now));
	memset(&all, 0xff, sizeof all);
	return sched_setaffinity(0, sizeof all, &all) == 0 ? NVML_SUCCESS : NVML_ERROR_OPERATING_SYSTEM;
}

nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t device)
{
	return clear_affinity(device);
}
nvmlReturn_t nvmlDeviceClearCpuAffinity(nvmlDevice_t device)
{
	return clear_affinity(device);
}

// Lists all devices except `but`. If the array is too small, stores as many as fit. Sets *count to the number of all
// devices except `but`.
static nvmlReturn_t list_devices(struct nvml_state *now, const struct nvmlDevice_st *but, unsigned *count,
				 nvmlDevice_t *devices)
{
	unsigned found = 0;

	for (unsigned i = 0; i < now->config.devices; i++) {
		if (&now->devices[i] == but)
			continue;
		if (devices && found < *count)
			devices[found] = &now->devices[i];
		found++;
	}
	bool fits = !devices || found <= *count;
	*count = found;
	return fits ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned cpuNumber, unsigned *count, nvmlDevice_t *deviceArray)
{
	struct nvml_state *now;

	NVML_TRY(nvml_state(&now));
	if (!count || (long)cpuNumber >= sysconf(_SC_NPROCESSORS_CONF))
		return NVML_ERROR_INVALID_ARGUMENT;
	return list_devices(now, NULL, count, deviceArray);
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned *count,
					      nvmlDevice_t *deviceArray)
{
	NVML_ENTER(device, !count || level > NVML_TOPOLOGY_SYSTEM || level % 10);
	if (level == NVML_TOPOLOGY_NODE) // all devices of the simulated node are at this level
		return list_devices(now, device, count, deviceArray);
	*count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
						 nvmlGpuTopologyLevel_t *pathInfo)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(device1, &now));
	NVML_TRY(nvml_device(device2, &now));
	if (!pathInfo)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (device1 == device2)
		return NVML_ERROR_NOT_SUPPORTED;
	*pathInfo = NVML_TOPOLOGY_NODE;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2, nvmlGpuP2PCapsIndex_t p2pIndex,
				    nvmlGpuP2PStatus_t *p2pStatus)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(device1, &now));
	NVML_TRY(nvml_device(device2, &now));
	if (!p2pStatus)
		return NVML_ERROR_INVALID_ARGUMENT;
	*p2pStatus = p2pIndex == NVML_P2P_CAPS_INDEX_NVLINK || device1 == device2 ? NVML_P2P_STATUS_NOT_SUPPORTED
										  : NVML_P2P_STATUS_OK;
	return NVML_SUCCESS;
}

// ---- MIG: on or off as configured; the instances are not separate devices -------------------------

NVML_NUMBER(nvmlDeviceIsMigDeviceHandle, unsigned, isMigDevice, 0)
NVML_NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned, count, now->config.mig ? 7 : 0)

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *activationStatus)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(device, &now));
	return activationStatus && mode <= 1 ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *migDevice)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(device, &now));
	return migDevice && index < 7 ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice, nvmlDevice_t *device)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(migDevice, &now));
	return NVML_ERROR_INVALID_ARGUMENT; // the device is not a MIG device
}
