// An NVML whose GPUs and processes are lines of the file that FAKE_NVML names:
//   gpu <bytes>
//   process <gpu> <pid> <bytes>
//   silent                     (lists of processes return an error)
//   hidden <gpus>              (a device cgroup hides this many GPUs, whose numbers precede those of the others)
// A test thereby decides when the driver releases the memory of a dead process.
#include "abi/nvml_abi.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { GPUS = 4, PROCESSES = 64 };

struct world {
	unsigned gpus, processes, hidden;
	bool silent;
	unsigned long long memory[GPUS];
	struct {
		unsigned gpu, pid;
		unsigned long long bytes;
	} process[PROCESSES];
};

static int devices[GPUS]; // a device handle is the address of an element

static struct world read_world(void)
{
	struct world world = {0};
	const char *path = getenv("FAKE_NVML");
	FILE *file = path ? fopen(path, "re") : NULL;
	char line[128];

	while (file && fgets(line, sizeof line, file)) {
		if (sscanf(line, "gpu %llu", &world.memory[world.gpus]) == 1)
			world.gpus += world.gpus < GPUS - 1;
		else if (sscanf(line, "process %u %u %llu", &world.process[world.processes].gpu,
				&world.process[world.processes].pid, &world.process[world.processes].bytes) == 3)
			world.processes += world.processes < PROCESSES - 1;
		else if (strncmp(line, "silent", 6) == 0)
			world.silent = true;
		else
			sscanf(line, "hidden %u", &world.hidden);
	}
	if (file)
		fclose(file);
	return world;
}

static unsigned index_of(nvmlDevice_t device)
{
	return (unsigned)((int *)device - devices);
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
	return read_world().gpus ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	snprintf(version, length, "580.1");
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = read_world().gpus;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	*device = (nvmlDevice_t)&devices[index];
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
	snprintf(uuid, length, "GPU-00000000-0000-0000-0000-%012u", read_world().hidden + index_of(device) + 1);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
	snprintf(name, length, "Fake GPU");
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	*memory = (nvmlMemory_t){.total = read_world().memory[index_of(device)]};
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
							    nvmlProcessInfo_t *infos)
{
	struct world world = read_world();
	unsigned found = 0;

	if (world.silent)
		return NVML_ERROR_UNKNOWN;
	for (unsigned i = 0; i < world.processes; i++)
		if (world.process[i].gpu == index_of(device) && found < *count)
			infos[found++] = (nvmlProcessInfo_t){.pid = world.process[i].pid,
							     .usedGpuMemory = world.process[i].bytes};
	*count = found;
	return NVML_SUCCESS;
}
