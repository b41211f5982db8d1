// Waits for events of GPUs, such as errors.
#include "virgate/gpu_event.h"

#include "system/gpu.h"
#include "system/wait.h"

#include <stdlib.h>
#include <unistd.h>

struct vg_gpu_events {
	const struct vg_nvml *nvml;
	nvmlEventSet_t set;
	pid_t creator;
};

const char *vg_gpu_event_type_name(uint64_t type)
{
	static const char *const names[] = {"single_bit_ecc_error",
					    "double_bit_ecc_error",
					    "pstate",
					    "xid_critical_error",
					    "clock",
					    "unknown",
					    "unknown",
					    "power_source_change",
					    "mig_config_change",
					    "single_bit_ecc_error_storm",
					    "dram_retirement_event",
					    "dram_retirement_failure",
					    "non_fatal_poison_error",
					    "fatal_poison_error",
					    "gpu_unavailable_error",
					    "gpu_recovery_action"};

	if (type == 0)
		return "none";
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (type == 1ull << i)
			return names[i];
	return "unknown";
}

GPU_NUMBER(vg_gpu_supported_events, uint64_t, nvmlDeviceGetSupportedEventTypes, unsigned long long)

static enum vg_status register_events(struct vg_gpu *gpu, uint64_t types, nvmlEventSet_t set)
{
	unsigned long long supported = 0;
	struct gpu_call call;

	SYSTEM_TRY(gpu_call_begin(gpu, &call));
	nvmlReturn_t result = call.nvml->nvmlDeviceRegisterEvents(call.handle, types, set);
	if (result && call.nvml->nvmlDeviceGetSupportedEventTypes(call.handle, &supported) == NVML_SUCCESS)
		return system_nvml_failed(result, "nvmlDeviceRegisterEvents",
					  "%s: asked for types 0x%llx, it has 0x%llx", gpu->uuid,
					  (unsigned long long)types, supported);
	return result ? system_nvml_failed(result, "nvmlDeviceRegisterEvents", "%s", gpu->uuid) : VG_OK;
}

enum vg_status vg_gpu_events_create(struct vg_gpu *gpu, uint64_t types, struct vg_gpu_events **ret_events)
{
	VG_ENTRY();
	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_events);
	struct vg_gpu_events *events = calloc(1, sizeof *events);
	if (!events)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a set of events");
	*events = (struct vg_gpu_events){.nvml = call.nvml, .creator = getpid()};
	nvmlReturn_t result = call.nvml->nvmlEventSetCreate(&events->set);
	enum vg_status status = result ? system_nvml_failed(result, "nvmlEventSetCreate", "%s", "")
				       : register_events(gpu, types, events->set);
	if (status) {
		if (!result)
			call.nvml->nvmlEventSetFree(events->set);
		free(events);
		return status;
	}
	*ret_events = events;
	return VG_OK;
}

enum vg_status vg_gpu_events_add(struct vg_gpu_events *events, struct vg_gpu *gpu, uint64_t types)
{
	VG_ENTRY();
	SYSTEM_NEEDED(events);
	SYSTEM_TRY(system_check_creator(events->creator));
	return register_events(gpu, types, events->set);
}

void vg_gpu_events_destroy(struct vg_gpu_events *events)
{
	if (events && events->creator == getpid())
		events->nvml->nvmlEventSetFree(events->set);
	free(events);
}

struct waiting {
	struct vg_gpu_events *events;
	nvmlEventData_t data;
};

static nvmlReturn_t wait_slice(void *waiting_, unsigned slice_ms)
{
	struct waiting *waiting = waiting_;
	struct vg_gpu_events *events = waiting->events;
	nvmlReturn_t result = events->nvml->nvmlEventSetWait_v2(events->set, &waiting->data, slice_ms);

	if (result == NVML_ERROR_FUNCTION_NOT_FOUND)
		result = events->nvml->nvmlEventSetWait(events->set, &waiting->data, slice_ms);
	return result;
}

enum vg_status vg_gpu_events_wait(struct vg_gpu_events *events, unsigned timeout_ms, struct vg_gpu_event *ret_event)
{
	VG_ENTRY();
	struct vg_gpu *gpu;

	SYSTEM_NEEDED(events);
	SYSTEM_NEEDED(ret_event);
	SYSTEM_TRY(system_check_creator(events->creator));
	struct waiting waiting = {events, {.gpuInstanceId = NVML_NO_INSTANCE, .computeInstanceId = NVML_NO_INSTANCE}};
	nvmlReturn_t result = system_wait(timeout_ms, wait_slice, &waiting);
	if (result)
		return system_nvml_failed(result, "nvmlEventSetWait", "waited %u ms", timeout_ms);
	SYSTEM_TRY(gpu_find(events->nvml, waiting.data.device, &gpu));
	bool instance = waiting.data.eventType == VG_GPU_EVENT_XID_CRITICAL_ERROR &&
			waiting.data.gpuInstanceId != NVML_NO_INSTANCE;
	*ret_event = (struct vg_gpu_event){gpu,
					   waiting.data.eventType,
					   waiting.data.eventData,
					   instance,
					   instance ? waiting.data.gpuInstanceId : 0,
					   instance ? waiting.data.computeInstanceId : 0};
	return VG_OK;
}
