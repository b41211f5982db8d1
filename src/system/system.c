#include "system/system.h"

#include "base/parts.h"
#include "driver/nvml.h"
#include "virgate/system.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct vg_system {
	const struct vg_nvml *nvml;
	pid_t initialised_by; // process that initialised NVML, whose state does not survive fork()
	char driver_version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
	size_t device_count;
	struct vg_system_device devices[VG_SYSTEM_DEVICES];
	nvmlDevice_t handles[VG_SYSTEM_DEVICES];
};

static nvmlReturn_t read_device(struct vg_system *system, unsigned int index)
{
	const struct vg_nvml *nvml = system->nvml;
	struct vg_system_device *device = &system->devices[index];
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	nvmlMemory_t memory;

	nvmlReturn_t result = nvml->nvmlDeviceGetHandleByIndex_v2(index, &system->handles[index]);
	if (result == NVML_SUCCESS)
		result = nvml->nvmlDeviceGetUUID(system->handles[index], uuid, sizeof uuid);
	if (result == NVML_SUCCESS)
		result = nvml->nvmlDeviceGetName(system->handles[index], device->name, sizeof device->name);
	if (result == NVML_SUCCESS)
		result = nvml->nvmlDeviceGetMemoryInfo(system->handles[index], &memory);
	if (result != NVML_SUCCESS)
		return result;
	if (!vg_system_uuid_parse(uuid, device->uuid))
		return NVML_ERROR_UNKNOWN;
	vg_system_uuid_format(device->uuid, device->uuid_text);
	device->index = index;
	device->memory = memory.total;
	if (nvml->nvmlDeviceGetCudaComputeCapability(system->handles[index], &device->compute_major,
						     &device->compute_minor) != NVML_SUCCESS)
		device->compute_major = device->compute_minor = 0;
	return NVML_SUCCESS;
}

static nvmlReturn_t initialise(struct vg_system *system)
{
	const struct vg_nvml *nvml = system->nvml;
	unsigned int count;

	nvmlReturn_t result = nvml->nvmlInitWithFlags(0);
	if (result != NVML_SUCCESS)
		return result;
	system->initialised_by = getpid();
	result = nvml->nvmlDeviceGetCount_v2(&count);
	if (result == NVML_SUCCESS && count > VG_SYSTEM_DEVICES)
		count = VG_SYSTEM_DEVICES;
	for (unsigned int i = 0; result == NVML_SUCCESS && i < count; i++)
		result = read_device(system, i);
	if (result == NVML_SUCCESS)
		result = nvml->nvmlSystemGetDriverVersion(system->driver_version, sizeof system->driver_version);
	if (result == NVML_SUCCESS)
		system->device_count = count;
	else
		nvml->nvmlShutdown();
	return result;
}

int vg_system_open(struct vg_system **ret_system, char *problem, size_t capacity)
{
	struct vg_system *system = calloc(1, sizeof *system);

	if (!system) {
		snprintf(problem, capacity, "no memory for the list of GPUs");
		return 1;
	}
	int r = vg_nvml_load(&system->nvml, problem, capacity);
	if (r == 0) {
		nvmlReturn_t result = initialise(system);
		const char *simulated = vg_simulation_wanted();
		if (result != NVML_SUCCESS && *simulated)
			snprintf(problem, capacity, "the simulated NVML does not start: %s",
				 vg_nvml_error_name(result));
		else if (result != NVML_SUCCESS)
			snprintf(problem, capacity, "NVML does not start: %s: is the NVIDIA driver loaded?",
				 vg_nvml_error_name(result));
		else if (system->device_count == 0)
			snprintf(problem, capacity, "NVML finds no GPU");
		r = result != NVML_SUCCESS || system->device_count == 0;
	}
	if (r) {
		free(system);
		return r;
	}
	*ret_system = system;
	return 0;
}

void vg_system_close(struct vg_system *system)
{
	if (!system)
		return;
	if (system->initialised_by == getpid())
		system->nvml->nvmlShutdown();
	free(system);
}

bool vg_system_simulated(const struct vg_system *system)
{
	return system->nvml->simulated;
}

const char *vg_system_simulated_directory(const struct vg_system *system)
{
	const char *directory = system->nvml->sim_directory ? system->nvml->sim_directory() : NULL;

	return directory ? directory : "";
}

const char *vg_system_driver_version(const struct vg_system *system)
{
	return system->driver_version;
}

size_t vg_system_device_count(const struct vg_system *system)
{
	return system->device_count;
}

const struct vg_system_device *vg_system_device(const struct vg_system *system, size_t index)
{
	return &system->devices[index];
}

static int check_ready(struct vg_system *system, size_t index)
{
	if (system->initialised_by != getpid() && initialise(system) != NVML_SUCCESS)
		return -EIO;
	return index < system->device_count ? 0 : -EIO;
}

int vg_system_memory_used(struct vg_system *system, size_t index, uint64_t *ret_used)
{
	nvmlMemory_t memory;

	if (check_ready(system, index) < 0 ||
	    system->nvml->nvmlDeviceGetMemoryInfo(system->handles[index], &memory) != NVML_SUCCESS)
		return -EIO;
	*ret_used = memory.used;
	return 0;
}

static void add_process(struct vg_system_process *processes, size_t *count, const nvmlProcessInfo_t *info)
{
	bool known = info->usedGpuMemory != NVML_VALUE_NOT_AVAILABLE_ULL;

	for (size_t i = 0; i < *count; i++) {
		if (processes[i].pid != info->pid)
			continue;
		// A process that computes and draws has two entries, each with all its memory: count only one.
		if (known && (!processes[i].memory_known || info->usedGpuMemory > processes[i].memory))
			processes[i] = (struct vg_system_process){info->pid, true, info->usedGpuMemory};
		return;
	}
	processes[(*count)++] = (struct vg_system_process){info->pid, known, known ? info->usedGpuMemory : 0};
}

int vg_system_processes(struct vg_system *system, size_t index,
			struct vg_system_process ret_processes[VG_SYSTEM_PROCESSES], size_t *ret_count)
{
	nvmlProcessInfo_t infos[VG_SYSTEM_PROCESSES / 2];
	size_t count = 0;

	if (check_ready(system, index) < 0)
		return -EIO;
	for (int graphics = 0; graphics < 2; graphics++) {
		unsigned int got = VG_SYSTEM_PROCESSES / 2;
		nvmlReturn_t result = graphics ? system->nvml->nvmlDeviceGetGraphicsRunningProcesses_v3(
							 system->handles[index], &got, infos)
					       : system->nvml->nvmlDeviceGetComputeRunningProcesses_v3(
							 system->handles[index], &got, infos);
		if (graphics && (result == NVML_ERROR_NOT_SUPPORTED || result == NVML_ERROR_FUNCTION_NOT_FOUND))
			break;
		if (result == NVML_ERROR_INSUFFICIENT_SIZE)
			return -ENOBUFS;
		if (result != NVML_SUCCESS)
			return -EIO;
		for (unsigned int i = 0; i < got; i++)
			add_process(ret_processes, &count, &infos[i]);
	}
	*ret_count = count;
	return 0;
}
