// Reads the memory of a GPU, and lists the processes that use it.
#include "system/gpu.h"

#include <stdlib.h>

enum vg_status vg_gpu_memory(struct vg_gpu *gpu, struct vg_gpu_memory *ret_memory)
{
	VG_ENTRY();
	nvmlMemory_v2_t memory = {.version = nvmlMemory_v2};
	nvmlMemory_t plain;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_memory);
	nvmlReturn_t result = call.nvml->nvmlDeviceGetMemoryInfo_v2(call.handle, &memory);
	if (result && !system_nvml_is_unknown(result))
		return system_nvml_failed(result, "nvmlDeviceGetMemoryInfo_v2", "%s", gpu->uuid);
	if (result == NVML_SUCCESS) {
		*ret_memory = (struct vg_gpu_memory){memory.total, memory.free, memory.used, memory.reserved, 1};
		return VG_OK;
	}
	GPU_ASK(nvmlDeviceGetMemoryInfo, &plain);
	*ret_memory = (struct vg_gpu_memory){plain.total, plain.free, plain.used, 0, 0};
	return VG_OK;
}

enum vg_status vg_gpu_bar1(struct vg_gpu *gpu, struct vg_gpu_bar1 *ret_bar1)
{
	VG_ENTRY();
	nvmlBAR1Memory_t bar1;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_bar1);
	GPU_ASK(nvmlDeviceGetBAR1MemoryInfo, &bar1);
	*ret_bar1 = (struct vg_gpu_bar1){bar1.bar1Total, bar1.bar1Free, bar1.bar1Used};
	return VG_OK;
}

static nvmlReturn_t query_processes(const struct gpu_call *call, unsigned *count, nvmlProcessInfo_t *infos)
{
	nvmlReturn_t result = call->nvml->nvmlDeviceGetComputeRunningProcesses_v3(call->handle, count, infos);

	if (result == NVML_ERROR_FUNCTION_NOT_FOUND)
		result = call->nvml->nvmlDeviceGetComputeRunningProcesses_v2(call->handle, count, infos);
	return result;
}

// Lists the processes. Their number may change between two calls, so this repeats until the list fits.
static enum vg_status list_processes(struct vg_gpu *gpu, const struct gpu_call *call, nvmlProcessInfo_t **ret_infos,
				     unsigned *ret_count)
{
	nvmlReturn_t result = NVML_ERROR_INSUFFICIENT_SIZE;
	nvmlProcessInfo_t *infos = NULL;
	unsigned room = 16, count = 0;

	for (int attempt = 0; result == NVML_ERROR_INSUFFICIENT_SIZE && attempt < 8; attempt++) {
		free(infos);
		infos = calloc(room, sizeof *infos);
		if (!infos)
			return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %u processes", room);
		count = room;
		result = query_processes(call, &count, infos);
		room = 2 * (count > room ? count : room);
	}
	if (result) {
		free(infos);
		return system_nvml_failed(result, "nvmlDeviceGetComputeRunningProcesses", "%s", gpu->uuid);
	}
	*ret_infos = infos;
	*ret_count = count;
	return VG_OK;
}

enum vg_status vg_gpu_processes(struct vg_gpu *gpu, struct vg_gpu_process *processes, size_t capacity,
				size_t *ret_count)
{
	VG_ENTRY();
	nvmlProcessInfo_t *infos = NULL;
	enum vg_status status;
	unsigned count = 0;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_count);
	SYSTEM_TRY(list_processes(gpu, &call, &infos, &count));
	if (gpu_list_fits(processes, capacity, count, "processes", ret_count, &status))
		for (unsigned i = 0; i < count; i++) {
			bool known = infos[i].usedGpuMemory != NVML_VALUE_NOT_AVAILABLE_ULL;
			bool instance = infos[i].gpuInstanceId != NVML_NO_INSTANCE;
			processes[i] = (struct vg_gpu_process){(pid_t)infos[i].pid,
							       known ? infos[i].usedGpuMemory : 0,
							       known,
							       instance,
							       instance ? infos[i].gpuInstanceId : 0,
							       instance ? infos[i].computeInstanceId : 0};
		}
	free(infos);
	return status;
}

enum vg_status vg_gpu_utilization(struct vg_gpu *gpu, struct vg_gpu_utilization *ret_utilization)
{
	VG_ENTRY();
	nvmlUtilization_t rates;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_utilization);
	GPU_ASK(nvmlDeviceGetUtilizationRates, &rates);
	*ret_utilization = (struct vg_gpu_utilization){rates.gpu, rates.memory};
	return VG_OK;
}
