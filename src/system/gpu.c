// Finds GPUs by index, UUID and bus id.
#include "system/gpu.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A list to which objects are only added, at the front, so that readers need no lock.
static struct vg_gpu *_Atomic gpus;

static struct vg_gpu *find_known(const char *uuid)
{
	struct vg_gpu *gpu = atomic_load(&gpus);

	while (gpu && strcmp(gpu->uuid, uuid) != 0)
		gpu = gpu->next;
	return gpu;
}

static enum vg_status describe_gpu(const struct vg_nvml *nvml, nvmlDevice_t handle, struct vg_gpu *gpu)
{
	nvmlPciInfo_t pci;

	nvmlReturn_t result = nvml->nvmlDeviceGetName(handle, gpu->name, sizeof gpu->name);
	if (result)
		return system_nvml_failed(result, "nvmlDeviceGetName", "%s", gpu->uuid);
	if (nvml->nvmlDeviceGetPciInfo_v3(handle, &pci) == NVML_SUCCESS)
		memcpy(gpu->pci_bus_id, pci.busId, sizeof gpu->pci_bus_id);
	atomic_init(&gpu->handle, handle);
	atomic_init(&gpu->found_by, getpid());
	return VG_OK;
}

// Adds an object to the list. If another thread has added an object of the same GPU, frees `gpu` and returns the other
// object.
static struct vg_gpu *add_gpu(struct vg_gpu *gpu)
{
	struct vg_gpu *first = atomic_load(&gpus), *other;

	do {
		other = find_known(gpu->uuid);
		if (other) {
			free(gpu);
			return other;
		}
		gpu->next = first;
	} while (!atomic_compare_exchange_strong(&gpus, &first, gpu));
	return gpu;
}

enum vg_status gpu_find(const struct vg_nvml *nvml, nvmlDevice_t handle, struct vg_gpu **ret_gpu)
{
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];

	nvmlReturn_t result = nvml->nvmlDeviceGetUUID(handle, uuid, sizeof uuid);
	if (result)
		return system_nvml_failed(result, "nvmlDeviceGetUUID", "%s", "");
	struct vg_gpu *gpu = find_known(uuid);
	if (!gpu) {
		gpu = calloc(1, sizeof *gpu);
		if (!gpu)
			return vg_fail(VG_NO_MEMORY, 0, "no memory for a GPU's description");
		snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
		enum vg_status status = describe_gpu(nvml, handle, gpu);
		if (status) {
			free(gpu);
			return status;
		}
		gpu = add_gpu(gpu);
	}
	*ret_gpu = gpu;
	return VG_OK;
}

enum vg_status gpu_call_begin(struct vg_gpu *gpu, struct gpu_call *ret_call)
{
	nvmlDevice_t handle;

	if (!gpu)
		return vg_fail(VG_INVALID, 0, "gpu is NULL");
	SYSTEM_TRY(system_nvml_open(&ret_call->nvml));
	// `handle` is valid only in the process that got it from NVML, not in a forked child.
	if (atomic_load(&gpu->found_by) != getpid()) {
		nvmlReturn_t result = ret_call->nvml->nvmlDeviceGetHandleByUUID(gpu->uuid, &handle);
		if (result)
			return system_nvml_failed(result, "nvmlDeviceGetHandleByUUID", "%s", gpu->uuid);
		atomic_store(&gpu->handle, handle);
		atomic_store(&gpu->found_by, getpid());
	}
	ret_call->handle = atomic_load(&gpu->handle);
	return VG_OK;
}

enum vg_status gpu_figure(nvmlReturn_t result, const unsigned *value, const struct vg_gpu *gpu, const char *entry,
			  int *ret_figure)
{
	if (result && !system_nvml_is_unknown(result))
		return system_nvml_failed(result, entry, "%s", gpu->uuid);
	*ret_figure = result ? -1 : (int)*value;
	return VG_OK;
}

bool gpu_list_fits(const void *array, size_t capacity, size_t have, const char *what, size_t *ret_count,
		   enum vg_status *ret_status)
{
	*ret_status = VG_OK;
	if (capacity == 0)
		*ret_count = have;
	else if (!array)
		*ret_status =
			vg_fail(VG_INVALID, 0, "the array of %s is NULL, and the capacity is %zu", what, capacity);
	else if (have > capacity)
		*ret_status = vg_fail(VG_LIMIT, 0, "there are %zu %s, and the array is for %zu", have, what, capacity);
	else {
		*ret_count = have;
		return true;
	}
	return false;
}

static enum vg_status count_gpus(const struct vg_nvml **ret_nvml, unsigned *ret_count)
{
	SYSTEM_TRY(system_nvml_open(ret_nvml));
	nvmlReturn_t result = (*ret_nvml)->nvmlDeviceGetCount_v2(ret_count);
	return result ? system_nvml_failed(result, "nvmlDeviceGetCount", "%s", "") : VG_OK;
}

enum vg_status vg_gpu_count(unsigned *ret_count)
{
	VG_ENTRY();
	const struct vg_nvml *nvml;

	SYSTEM_NEEDED(ret_count);
	return count_gpus(&nvml, ret_count);
}

static enum vg_status find_by_index(const struct vg_nvml *nvml, unsigned index, struct vg_gpu **ret_gpu)
{
	nvmlDevice_t handle;

	nvmlReturn_t result = nvml->nvmlDeviceGetHandleByIndex_v2(index, &handle);
	if (result)
		return system_nvml_failed(result, "nvmlDeviceGetHandleByIndex", "GPU %u", index);
	return gpu_find(nvml, handle, ret_gpu);
}

enum vg_status vg_gpu_by_index(unsigned index, struct vg_gpu **ret_gpu)
{
	VG_ENTRY();
	const struct vg_nvml *nvml;
	unsigned count;

	SYSTEM_NEEDED(ret_gpu);
	SYSTEM_TRY(count_gpus(&nvml, &count));
	if (index >= count)
		return vg_fail(VG_INVALID, 0, "there is no GPU %u: the machine has %u, from 0 on", index, count);
	return find_by_index(nvml, index, ret_gpu);
}

// Returns whether a text has the form 8-4-4-4-12.
static bool is_uuid(const char *text)
{
	for (int i = 0; i < 36; i++) {
		bool hyphen = i == 8 || i == 13 || i == 18 || i == 23;
		if (hyphen ? text[i] != '-' : !isxdigit((unsigned char)text[i]))
			return false;
	}
	return text[36] == '\0';
}

enum vg_status vg_gpu_by_uuid(const char *uuid, struct vg_gpu **ret_gpu)
{
	VG_ENTRY();
	char asked[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
	const struct vg_nvml *nvml;
	nvmlDevice_t handle;

	SYSTEM_NEEDED(uuid);
	SYSTEM_NEEDED(ret_gpu);
	bool prefixed = strncmp(uuid, "GPU-", 4) == 0;
	// A MIG device may have the old form, MIG-GPU-<UUID>/<instance>/<instance>.
	bool mig = strncmp(uuid, "MIG-", 4) == 0 && strlen(uuid) < sizeof asked;
	if (!mig && !is_uuid(prefixed ? uuid + 4 : uuid))
		return vg_fail(
			VG_INVALID, 0,
			"\"%.60s\" is no UUID of a GPU: 8-4-4-4-12 hexadecimal digits, after \"GPU-\" or \"MIG-\"",
			uuid);
	snprintf(asked, sizeof asked, "%s%s", mig || prefixed ? "" : "GPU-", uuid);
	SYSTEM_TRY(system_nvml_open(&nvml));
	nvmlReturn_t result = nvml->nvmlDeviceGetHandleByUUID(asked, &handle);
	if (result == NVML_ERROR_NOT_FOUND || result == NVML_ERROR_INVALID_ARGUMENT)
		return vg_fail(VG_NOT_FOUND, result, "there is no %s on this machine", asked);
	if (result)
		return system_nvml_failed(result, "nvmlDeviceGetHandleByUUID", "%s", asked);
	return gpu_find(nvml, handle, ret_gpu);
}

enum vg_status vg_gpu_by_pci_bus_id(const char *bus_id, struct vg_gpu **ret_gpu)
{
	VG_ENTRY();
	const struct vg_nvml *nvml;
	nvmlDevice_t handle;

	SYSTEM_NEEDED(bus_id);
	SYSTEM_NEEDED(ret_gpu);
	SYSTEM_TRY(system_nvml_open(&nvml));
	nvmlReturn_t result = nvml->nvmlDeviceGetHandleByPciBusId_v2(bus_id, &handle);
	if (result == NVML_ERROR_INVALID_ARGUMENT)
		return vg_fail(
			VG_INVALID, result,
			"\"%.60s\" is no PCI bus id: domain:bus:device.function in hexadecimal, as 00000000:3B:00.0",
			bus_id);
	if (result)
		return system_nvml_failed(result, "nvmlDeviceGetHandleByPciBusId", "there is no GPU at %.60s", bus_id);
	return gpu_find(nvml, handle, ret_gpu);
}

enum vg_status vg_gpu_all(struct vg_gpu **array, size_t capacity, size_t *ret_count)
{
	VG_ENTRY();
	const struct vg_nvml *nvml;
	enum vg_status status;
	unsigned count;

	SYSTEM_NEEDED(ret_count);
	SYSTEM_TRY(count_gpus(&nvml, &count));
	if (!gpu_list_fits(array, capacity, count, "GPUs", ret_count, &status))
		return status;
	for (unsigned i = 0; i < count; i++)
		SYSTEM_TRY(find_by_index(nvml, i, &array[i]));
	return VG_OK;
}

const char *vg_gpu_uuid(const struct vg_gpu *gpu)
{
	return gpu ? gpu->uuid : "";
}

const char *vg_gpu_uuid_without_prefix(const struct vg_gpu *gpu)
{
	return gpu ? gpu->uuid + 4 : "";
}

const char *vg_gpu_name(const struct vg_gpu *gpu)
{
	return gpu ? gpu->name : "";
}

const char *vg_gpu_pci_bus_id(const struct vg_gpu *gpu)
{
	return gpu ? gpu->pci_bus_id : "";
}
