// Implements NVML's lists of the processes that use a device.
#include "nvml.h"

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

// Returns the MIG instance in which every process runs, since with MIG a simulated device has only one.
static unsigned get_instance(const struct nvml_state *now)
{
	return now->config.mig ? 0 : NVML_NO_INSTANCE;
}

// Translates the pid of a process to the pid namespace of the calling process; 0: it has no pid there. NVIDIA's driver,
// too, shows only pids of the caller's namespace.
static pid_t find_visible_pid(const struct region_use *use)
{
	static _Thread_local struct { // a cache of the latest answers
		uint64_t start_time;
		uint32_t pid_namespace;
		pid_t pid, visible;
	} known[64];
	size_t at = (unsigned)use->pid % 64;
	bool is_known = known[at].pid == use->pid && known[at].pid_namespace == use->pid_namespace &&
			known[at].start_time == use->start_time;

	if (use->pid_namespace == region_pid_namespace())
		return use->pid;
	if (is_known && known[at].visible)
		return known[at].visible;
	known[at].start_time = use->start_time;
	known[at].pid_namespace = use->pid_namespace;
	known[at].pid = use->pid;
	known[at].visible = nvml_find_pid(use->pid_namespace, use->pid);
	return known[at].visible;
}

static size_t list_users(const struct nvml_state *now, nvmlDevice_t device, struct region_use *ret_uses)
{
	size_t count = region_users(now->region, device->index, ret_uses, REGION_PROCESSES), kept = 0;

	for (size_t i = 0; i < count && i < REGION_PROCESSES; i++) {
		ret_uses[kept] = ret_uses[i];
		ret_uses[kept].pid = find_visible_pid(&ret_uses[i]);
		kept += ret_uses[kept].pid != 0;
	}
	return kept;
}

// Lists the processes. Calls `put` to write each element of the array. NVML_ERROR_INSUFFICIENT_SIZE: the array is too
// small, and *count is set to the number of processes.
static nvmlReturn_t list_processes(nvmlDevice_t device, unsigned *count, void *infos,
				   void (*put)(void *infos, size_t at, const struct region_use *use, unsigned instance))
{
	struct nvml_state *now;
	struct region_use uses[REGION_PROCESSES];

	NVML_TRY(nvml_device(device, &now));
	if (!count || (*count && !infos))
		return NVML_ERROR_INVALID_ARGUMENT;
	size_t have = list_users(now, device, uses), room = *count;
	*count = (unsigned)have;
	if (have > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (size_t i = 0; i < have; i++)
		put(infos, i, &uses[i], get_instance(now));
	return NVML_SUCCESS;
}

static void put_v1(void *infos, size_t at, const struct region_use *use, unsigned instance)
{
	((nvmlProcessInfo_v1_t *)infos)[at] =
		(nvmlProcessInfo_v1_t){.pid = (unsigned)use->pid, .usedGpuMemory = use->used};
}

static void put_v2(void *infos, size_t at, const struct region_use *use, unsigned instance)
{
	((nvmlProcessInfo_v2_t *)infos)[at] = (nvmlProcessInfo_v2_t){.pid = (unsigned)use->pid,
								     .usedGpuMemory = use->used,
								     .gpuInstanceId = instance,
								     .computeInstanceId = instance};
}

static nvmlReturn_t list_none(nvmlDevice_t device, unsigned *count)
{
	NVML_ENTER(device, !count);
	*count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *infoCount, nvmlProcessInfo_v1_t *infos)
{
	return list_processes(device, infoCount, infos, put_v1);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *infoCount,
						     nvmlProcessInfo_v2_t *infos)
{
	return list_processes(device, infoCount, infos, put_v2);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount, nvmlProcessInfo_t *infos)
{
	return list_processes(device, infoCount, infos, put_v2);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned *infoCount,
						   nvmlProcessInfo_v1_t *infos)
{
	return list_none(device, infoCount);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned *infoCount,
						      nvmlProcessInfo_v2_t *infos)
{
	return list_none(device, infoCount);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount,
						      nvmlProcessInfo_t *infos)
{
	return list_none(device, infoCount);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned *infoCount,
						     nvmlProcessInfo_v1_t *infos)
{
	return list_none(device, infoCount);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *infoCount,
							nvmlProcessInfo_v2_t *infos)
{
	return list_none(device, infoCount);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount,
							nvmlProcessInfo_t *infos)
{
	return list_none(device, infoCount);
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *plist)
{
	struct nvml_state *now;
	struct region_use uses[REGION_PROCESSES];

	NVML_TRY(nvml_device(device, &now));
	if (!plist || plist->mode > 2 || (plist->numProcArrayEntries && !plist->procArray))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (plist->version != nvmlProcessDetailList_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	// Mode 0 lists compute processes; the modes for graphics and MPS list none.
	size_t have = plist->mode == 0 ? list_users(now, device, uses) : 0;
	size_t room = plist->numProcArrayEntries;
	plist->numProcArrayEntries = (unsigned)have;
	if (have > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (size_t i = 0; i < have; i++)
		plist->procArray[i] =
			(nvmlProcessDetail_v1_t){.pid = (unsigned)uses[i].pid,
						 .usedGpuMemory = uses[i].used,
						 .gpuInstanceId = get_instance(now),
						 .computeInstanceId = get_instance(now),
						 .usedGpuCcProtectedMemory = NVML_VALUE_NOT_AVAILABLE_ULL};
	return NVML_SUCCESS;
}

// Returns how busy each process kept the device since the calling thread's previous call, in percent.
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *utilization,
					     unsigned *processSamplesCount, unsigned long long lastSeenTimeStamp)
{
	static _Thread_local struct { // the thread's latest reading
		unsigned pid;
		uint64_t ns, busy;
	} seen[64];
	struct nvml_state *now;
	struct region_use uses[REGION_PROCESSES];
	struct timespec time;

	NVML_TRY(nvml_device(device, &now));
	if (!processSamplesCount)
		return NVML_ERROR_INVALID_ARGUMENT;
	size_t have = list_users(now, device, uses), room = *processSamplesCount;
	*processSamplesCount = (unsigned)have;
	if (!utilization || have > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	if (have == 0)
		return NVML_ERROR_NOT_FOUND;
	clock_gettime(CLOCK_REALTIME, &time);
	uint64_t ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
	for (size_t i = 0; i < have; i++) {
		size_t slot = (unsigned)uses[i].pid % 64;
		uint64_t rate = seen[slot].pid == (unsigned)uses[i].pid && ns > seen[slot].ns
					? 100 * (uses[i].busy_ns - seen[slot].busy) / (ns - seen[slot].ns)
					: 0;
		seen[slot].pid = (unsigned)uses[i].pid;
		seen[slot].ns = ns;
		seen[slot].busy = uses[i].busy_ns;
		utilization[i] = (nvmlProcessUtilizationSample_t){.pid = (unsigned)uses[i].pid,
								  .timeStamp = ns / 1000,
								  .smUtil = rate > 100 ? 100 : (unsigned)rate};
	}
	return NVML_SUCCESS;
}
