// Implements NVML's functions for initialization, for the system, and for finding devices.
#include "nvml.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/descriptor.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvml_state state;
static unsigned initialized; // number of calls of nvmlInit that have no nvmlShutdown yet

nvmlReturn_t nvml_state(struct nvml_state **ret_state)
{
	pthread_mutex_lock(&lock);
	unsigned count = initialized;
	pthread_mutex_unlock(&lock);
	if (count == 0)
		return NVML_ERROR_UNINITIALIZED;
	*ret_state = &state;
	return NVML_SUCCESS;
}

nvmlReturn_t nvml_device(nvmlDevice_t device, struct nvml_state **ret_state)
{
	NVML_TRY(nvml_state(ret_state));
	if (device < state.devices || device >= state.devices + state.config.devices)
		return NVML_ERROR_INVALID_ARGUMENT;
	return NVML_SUCCESS;
}

nvmlReturn_t nvml_text(char *to, unsigned length, const char *text)
{
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strlen(text) >= length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(to, text);
	return NVML_SUCCESS;
}

static void name_device(struct nvmlDevice_st *device, int index)
{
	uint8_t uuid[16];

	region_uuid(&state.config, index, uuid);
	device->index = index;
	region_uuid_format(uuid, device->uuid);
	snprintf(device->pci, sizeof device->pci, "00000000:%02X:00.0", index + 1);
}

static nvmlReturn_t init_state(void)
{
	char problem[400] = "";
	int status = sim_config_read(&state.config, problem, sizeof problem);

	if (status == SIM_CONFIG_UNSET)
		snprintf(problem, sizeof problem,
			 "VIRGATE_SIM is not set, but the simulated NVML was loaded: set VIRGATE_SIM=1 to use it, or "
			 "remove its directory from LD_LIBRARY_PATH");
	if (status == 0 && !state.region)
		status = region_observe(&state.config, &state.region, problem, sizeof problem);
	if (status != 0) {
		fprintf(stderr, "virgate sim: %s\n", problem);
		return NVML_ERROR_DRIVER_NOT_LOADED;
	}
	for (unsigned i = 0; i < state.config.devices; i++)
		name_device(&state.devices[i], (int)i);
	return NVML_SUCCESS;
}

// Not a function of NVML: returns the directory of the simulated node, for the daemon and its clients. Returns NULL
// before nvmlInit. The text is valid until nvmlShutdown.
__attribute__((visibility("default"))) const char *virgate_sim_directory(void);
const char *virgate_sim_directory(void)
{
	static char path[PATH_MAX];

	pthread_mutex_lock(&lock);
	bool known = state.region && realpath(state.region->directory, path);
	pthread_mutex_unlock(&lock);
	return known ? path : NULL;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
	nvmlReturn_t result = NVML_SUCCESS;

	if (flags & ~(unsigned)(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH))
		return NVML_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&lock);
	if (initialized == 0)
		result = init_state();
	if (result == NVML_SUCCESS)
		initialized++;
	pthread_mutex_unlock(&lock);
	return result;
}

nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t result = NVML_SUCCESS;

	pthread_mutex_lock(&lock);
	if (initialized == 0) {
		result = NVML_ERROR_UNINITIALIZED;
	} else if (--initialized == 0) {
		region_close(state.region);
		state.region = NULL;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NO_PERMISSION:
		return "Insufficient Permissions";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case NVML_ERROR_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	case NVML_ERROR_TIMEOUT:
		return "Timeout";
	case NVML_ERROR_FUNCTION_NOT_FOUND:
		return "Function Not Found";
	case NVML_ERROR_GPU_IS_LOST:
		return "GPU is lost";
	case NVML_ERROR_MEMORY:
		return "Insufficient Memory";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
		return "Argument Version Mismatch";
	default:
		return "Unknown Error";
	}
}

// ---- the system --------------------------------------------------------------------------------

// Returns the driver branch that introduced the CUDA version: 580.00 for 13.0.
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	struct nvml_state *now;
	char text[32];

	NVML_TRY(nvml_state(&now));
	snprintf(text, sizeof text, "%u.00",
		 now->config.driver >= 13000 ? 580 + (now->config.driver - 13000) / 10 * 10 : 570);
	return nvml_text(version, length, text);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
	struct nvml_state *now;
	char text[32];

	NVML_TRY(nvml_state(&now));
	snprintf(text, sizeof text, "%u.%s", now->config.driver / 1000,
		 now->config.driver >= 13000 ? "580.00" : "570.00");
	return nvml_text(version, length, text);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion)
{
	struct nvml_state *now;

	NVML_TRY(nvml_state(&now));
	if (!cudaDriverVersion)
		return NVML_ERROR_INVALID_ARGUMENT;
	*cudaDriverVersion = (int)now->config.driver;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
	return nvmlSystemGetCudaDriverVersion(cudaDriverVersion);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
	struct nvml_state *now;
	char path[64], text[4096];

	NVML_TRY(nvml_state(&now));
	if (!name || length == 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
	ssize_t size = vg_file_read(path, text, sizeof text);
	if (size <= 0)
		return NVML_ERROR_NOT_FOUND;
	snprintf(name, length, "%s", text); // the first argument of the process, as much of it as fits
	return NVML_SUCCESS;
}

// ---- devices -------------------------------------------------------------------------------------

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *deviceCount)
{
	struct nvml_state *now;

	NVML_TRY(nvml_state(&now));
	if (!deviceCount)
		return NVML_ERROR_INVALID_ARGUMENT;
	*deviceCount = now->config.devices;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned *deviceCount)
{
	return nvmlDeviceGetCount_v2(deviceCount);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	struct nvml_state *now;

	NVML_TRY(nvml_state(&now));
	if (!device || index >= now->config.devices)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = &now->devices[index];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	struct nvml_state *now;

	NVML_TRY(nvml_state(&now));
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (unsigned i = 0; i < now->config.devices; i++)
		if (strcasecmp(now->devices[i].uuid, uuid) == 0) {
			*device = &now->devices[i];
			return NVML_SUCCESS;
		}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
	unsigned domain, bus, slot, function = 0;
	struct nvml_state *now;

	NVML_TRY(nvml_state(&now));
	if (!pciBusId || !device || sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (domain != 0 || slot != 0 || bus == 0 || bus > now->config.devices)
		return NVML_ERROR_NOT_FOUND;
	*device = &now->devices[bus - 1];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(pciBusId, device);
}
