#include "core/some_context.h"

#include "core/device.h"

// Returns the first device whose primary context is active, or NULL.
static struct vg_device *find_active_device(void)
{
	struct vg_device *device;
	int count = 0, active = 0;

	vg_device_count(&count);
	for (int i = 0; i < count; i++) {
		unsigned flags;
		if (vg_device_get(i, &device) == VG_OK &&
		    core_driver->cuDevicePrimaryCtxGetState(device->handle, &flags, &active) == CUDA_SUCCESS && active)
			return device;
	}
	return NULL;
}

// If the thread has no current context, makes a primary context current: one that is active, or else the one of the
// device `fallback`. If no primary context is active and `fallback` is NULL, does nothing.
static CUresult enter_context(struct core_some_context *some, struct vg_device *fallback)
{
	CUcontext context;

	*some = (struct core_some_context){NULL, false};
	CUresult r = core_driver->cuCtxGetCurrent(&context);
	if (r || context)
		return r;
	struct vg_device *device = find_active_device();
	if (!device)
		device = fallback;
	if (!device)
		return CUDA_SUCCESS;
	r = core_driver->cuDevicePrimaryCtxRetain(&context, device->handle);
	if (r)
		return r;
	some->device = device;
	r = core_driver->cuCtxPushCurrent_v2(context);
	some->pushed = r == CUDA_SUCCESS;
	return r;
}

CUresult core_enter_some(struct core_some_context *some)
{
	struct vg_device *first = NULL;

	vg_device_get(0, &first);
	return enter_context(some, first);
}

CUresult core_enter_active(struct core_some_context *some)
{
	return enter_context(some, NULL);
}

void core_leave_some(struct core_some_context *some)
{
	CUcontext popped;

	if (some->pushed)
		core_driver->cuCtxPopCurrent_v2(&popped);
	if (some->device)
		core_driver->cuDevicePrimaryCtxRelease_v2(some->device->handle);
}
