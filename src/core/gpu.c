// A CUDA device and what NVML knows of the same GPU.
#include "virgate/gpu.h"

#include "core/device.h"
#include "core/object.h"

#include <string.h>

enum vg_status vg_gpu_of_device(struct vg_device *device, struct vg_gpu **ret_gpu)
{
	VG_ENTRY();
	CORE_NEEDED(device);
	CORE_NEEDED(ret_gpu);
	return vg_gpu_by_uuid(device->uuid_text, ret_gpu);
}

enum vg_status vg_gpu_to_device(struct vg_gpu *gpu, struct vg_device **ret_device)
{
	VG_ENTRY();
	struct vg_device *device;
	int count;

	CORE_NEEDED(gpu);
	CORE_NEEDED(ret_device);
	enum vg_status status = vg_device_count(&count);
	for (int i = 0; status == VG_OK && i < count; i++) {
		status = vg_device_get(i, &device);
		if (status == VG_OK && strcmp(vg_device_uuid(device), vg_gpu_uuid_without_prefix(gpu)) == 0) {
			*ret_device = device;
			return VG_OK;
		}
	}
	if (status)
		return status;
	return vg_fail(
		VG_NOT_FOUND, 0,
		"%s is none of the %d devices that CUDA shows this process: is it hidden by CUDA_VISIBLE_DEVICES?",
		vg_gpu_uuid(gpu), count);
}
