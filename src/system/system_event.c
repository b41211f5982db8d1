// Reports when a GPU is bound to a driver, or unbound.
#include "system/gpu.h"
#include "system/wait.h"
#include "virgate/gpu_event.h"

#include <stdlib.h>
#include <unistd.h>

struct vg_system_events {
	const struct vg_nvml *nvml;
	nvmlSystemEventSet_t set;
	pid_t creator;
};

static void free_set(const struct vg_nvml *nvml, nvmlSystemEventSet_t set)
{
	nvmlSystemEventSetFreeRequest_v1_t request = {.version = nvmlSystemEventSetCreateRequest_v1, .set = set};

	nvml->nvmlSystemEventSetFree(&request);
}

enum vg_status vg_system_events_create(uint64_t types, struct vg_system_events **ret_events)
{
	VG_ENTRY();
	nvmlSystemEventSetCreateRequest_v1_t created = {.version = nvmlSystemEventSetCreateRequest_v1};
	const struct vg_nvml *nvml;

	SYSTEM_NEEDED(ret_events);
	if (types == 0 || types & ~(uint64_t)(VG_SYSTEM_EVENT_UNBIND | VG_SYSTEM_EVENT_BIND))
		return vg_fail(VG_INVALID, 0, "types 0x%llx: unbind is 1, bind is 2", (unsigned long long)types);
	SYSTEM_TRY(system_nvml_open(&nvml));
	struct vg_system_events *events = calloc(1, sizeof *events);
	if (!events)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a set of events");
	nvmlReturn_t result = nvml->nvmlSystemEventSetCreate(&created);
	if (result) {
		free(events);
		return system_nvml_failed(result, "nvmlSystemEventSetCreate", "%s", "");
	}
	nvmlSystemRegisterEventRequest_v1_t request = {
		.version = nvmlSystemRegisterEventRequest_v1, .eventTypes = types, .set = created.set};
	result = nvml->nvmlSystemRegisterEvents(&request);
	if (result) {
		free_set(nvml, created.set);
		free(events);
		return system_nvml_failed(result, "nvmlSystemRegisterEvents", "types 0x%llx",
					  (unsigned long long)types);
	}
	*events = (struct vg_system_events){nvml, created.set, getpid()};
	*ret_events = events;
	return VG_OK;
}

void vg_system_events_destroy(struct vg_system_events *events)
{
	if (events && events->creator == getpid())
		free_set(events->nvml, events->set);
	free(events);
}

// Finds the GPU with the PCI id that NVML reported. Returns NULL if NVML lists no such GPU.
static struct vg_gpu *find_gpu_at(const struct vg_nvml *nvml, unsigned id)
{
	struct vg_gpu *gpu = NULL;
	nvmlDevice_t handle;
	unsigned count = 0;
	nvmlPciInfo_t pci;

	(void)nvml->nvmlDeviceGetCount_v2(&count);
	for (unsigned i = 0; i < count; i++)
		if (nvml->nvmlDeviceGetHandleByIndex_v2(i, &handle) == NVML_SUCCESS &&
		    nvml->nvmlDeviceGetPciInfo_v3(handle, &pci) == NVML_SUCCESS &&
		    (pci.domain << 16 | pci.bus << 8 | pci.device) == id && gpu_find(nvml, handle, &gpu) == VG_OK)
			break;
	return gpu;
}

struct system_waiting {
	const struct vg_nvml *nvml;
	nvmlSystemEventSetWaitRequest_v1_t request;
};

static nvmlReturn_t wait_slice(void *waiting_, unsigned slice_ms)
{
	struct system_waiting *waiting = waiting_;

	waiting->request.timeoutms = slice_ms;
	return waiting->nvml->nvmlSystemEventSetWait(&waiting->request);
}

enum vg_status vg_system_events_wait(struct vg_system_events *events, unsigned timeout_ms,
				     struct vg_system_event *events_seen, size_t capacity, size_t *ret_count)
{
	VG_ENTRY();
	SYSTEM_NEEDED(events);
	SYSTEM_NEEDED(events_seen);
	SYSTEM_NEEDED(ret_count);
	SYSTEM_TRY(system_check_creator(events->creator));
	if (capacity == 0 || capacity > 4096)
		return vg_fail(VG_INVALID, 0, "an array of %zu events: 1 to 4096 can be asked for at once", capacity);
	nvmlSystemEventData_v1_t *data = calloc(capacity, sizeof *data);
	if (!data)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu events", capacity);
	struct system_waiting waiting = {events->nvml,
					 {.version = nvmlSystemEventSetWaitRequest_v1,
					  .set = events->set,
					  .data = data,
					  .dataSize = (unsigned)capacity}};
	nvmlReturn_t result = system_wait(timeout_ms, wait_slice, &waiting);
	size_t count = waiting.request.numEvent < capacity ? waiting.request.numEvent : capacity;
	for (size_t i = 0; i < count && result == NVML_SUCCESS; i++)
		events_seen[i] = (struct vg_system_event){data[i].eventType, data[i].gpuId,
							  find_gpu_at(events->nvml, data[i].gpuId)};
	free(data);
	if (result)
		return system_nvml_failed(result, "nvmlSystemEventSetWait", "waited %u ms", timeout_ms);
	*ret_count = count;
	return VG_OK;
}
