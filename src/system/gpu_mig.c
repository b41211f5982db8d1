// Finds MIG devices and reads their properties.
#include "system/gpu.h"

enum vg_status vg_gpu_mig(struct vg_gpu *gpu, struct vg_gpu_mig *ret_mig)
{
	VG_ENTRY();
	struct vg_gpu_mig mig = {.mode = -1, .pending = -1, .most_devices = -1};
	unsigned mode = 0, pending = 0, most = 0;
	struct vg_gpu *whole = gpu;

	SYSTEM_NEEDED(gpu);
	SYSTEM_NEEDED(ret_mig);
	mig.is_device = gpu_is_mig_device(gpu);
	if (mig.is_device)
		SYSTEM_TRY(vg_gpu_mig_parent(gpu, &whole));
	GPU_CALL(whole);
	GPU_FIGURE(&mig.mode, mode, nvmlDeviceGetMigMode, &mode, &pending);
	mig.pending = mig.mode < 0 ? -1 : (int)pending;
	GPU_FIGURE(&mig.most_devices, most, nvmlDeviceGetMaxMigDeviceCount, &most);
	*ret_mig = mig;
	return VG_OK;
}

enum vg_status vg_gpu_set_mig_mode(struct vg_gpu *gpu, int enabled)
{
	VG_ENTRY();
	nvmlReturn_t activation = NVML_SUCCESS;

	GPU_CALL(gpu);
	GPU_ASK(nvmlDeviceSetMigMode, enabled != 0, &activation);
	if (activation)
		return system_nvml_failed(activation, "nvmlDeviceSetMigMode",
					  "%s: the mode is set, and takes effect with the GPU's next reset", gpu->uuid);
	return VG_OK;
}

enum vg_status vg_gpu_mig_parent(struct vg_gpu *gpu, struct vg_gpu **ret_parent)
{
	VG_ENTRY();
	nvmlDevice_t parent;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_parent);
	if (!gpu_is_mig_device(gpu))
		return vg_fail(VG_INVALID, 0, "%s is a whole GPU, not a MIG device", gpu->uuid);
	GPU_ASK(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, &parent);
	return gpu_find(call.nvml, parent, ret_parent);
}

// Reads the maximum number of MIG devices; 0 if the GPU does not support MIG.
static enum vg_status read_max_devices(struct vg_gpu *gpu, const struct gpu_call *call, unsigned *ret_most)
{
	int most = 0;

	if (!gpu_is_mig_device(gpu)) {
		unsigned count = 0;
		nvmlReturn_t result = call->nvml->nvmlDeviceGetMaxMigDeviceCount(call->handle, &count);
		SYSTEM_TRY(gpu_figure(result, &count, gpu, "nvmlDeviceGetMaxMigDeviceCount", &most));
	}
	*ret_most = most < 0 ? 0 : (unsigned)most;
	return VG_OK;
}

enum vg_status vg_gpu_mig_device(struct vg_gpu *gpu, unsigned index, struct vg_gpu **ret_device)
{
	VG_ENTRY();
	nvmlDevice_t part;
	unsigned most;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_device);
	SYSTEM_TRY(read_max_devices(gpu, &call, &most));
	if (index >= most)
		return vg_fail(most ? VG_INVALID : VG_UNSUPPORTED, 0,
			       "%s can have %u MIG devices: there is no number %u", gpu->uuid, most, index);
	nvmlReturn_t result = call.nvml->nvmlDeviceGetMigDeviceHandleByIndex(call.handle, index, &part);
	if (result)
		return system_nvml_failed(result, "nvmlDeviceGetMigDeviceHandleByIndex", "%s has no MIG device %u",
					  gpu->uuid, index);
	return gpu_find(call.nvml, part, ret_device);
}

enum vg_status vg_gpu_mig_devices(struct vg_gpu *gpu, struct vg_gpu **devices, size_t capacity, size_t *ret_count)
{
	VG_ENTRY();
	nvmlDevice_t parts[64];
	unsigned most, count = 0;
	enum vg_status status;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_count);
	SYSTEM_TRY(read_max_devices(gpu, &call, &most));
	for (unsigned i = 0; i < most && count < 64; i++) {
		nvmlReturn_t result = call.nvml->nvmlDeviceGetMigDeviceHandleByIndex(call.handle, i, &parts[count]);
		if (result == NVML_SUCCESS)
			count++;
		else if (result != NVML_ERROR_NOT_FOUND && !system_nvml_is_unknown(result))
			return system_nvml_failed(result, "nvmlDeviceGetMigDeviceHandleByIndex", "%s", gpu->uuid);
	}
	if (!gpu_list_fits(devices, capacity, count, "MIG devices", ret_count, &status))
		return status;
	for (unsigned i = 0; i < count; i++)
		SYSTEM_TRY(gpu_find(call.nvml, parts[i], &devices[i]));
	return VG_OK;
}

enum vg_status vg_gpu_attributes(struct vg_gpu *gpu, struct vg_gpu_attributes *ret_attributes)
{
	VG_ENTRY();
	nvmlDeviceAttributes_t got;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_attributes);
	GPU_ASK(nvmlDeviceGetAttributes_v2, &got);
	*ret_attributes = (struct vg_gpu_attributes){
		.multiprocessors = got.multiprocessorCount,
		.copy_engines = got.sharedCopyEngineCount,
		.decoders = got.sharedDecoderCount,
		.encoders = got.sharedEncoderCount,
		.jpeg_engines = got.sharedJpegCount,
		.ofa_engines = got.sharedOfaCount,
		.gpu_instance_slices = got.gpuInstanceSliceCount,
		.compute_instance_slices = got.computeInstanceSliceCount,
		.memory_mib = got.memorySizeMB,
	};
	return VG_OK;
}
