// Finds the NVML object of a CUDA device, and the CUDA device of an NVML object.
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
	CORE_TRY(vg_device_count(&count));
	for (int i = 0; i < count; i++) {
		CORE_TRY(vg_device_get(i, &device));
		if (strcmp(vg_device_uuid(device), vg_gpu_uuid_without_prefix(gpu)) == 0) {
			*ret_device = device;
			return VG_OK;
		}
	}
	return vg_fail(
		VG_NOT_FOUND, 0,
		"%s is none of the %d devices that CUDA shows this process: is it hidden by CUDA_VISIBLE_DEVICES?",
		vg_gpu_uuid(gpu), count);
}
