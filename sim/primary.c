// Retains and releases primary contexts. Each device has one. The first retain creates it, and the last release ends
// it.
#include <limits.h>

#include "context.h"
#include "entry.h"
#include "process.h"

CUresult sim_primary_retain(struct sim_device *device, struct sim_context **ret_context)
{
	CUresult result = CUDA_SUCCESS;

	SIM_TRY((CUresult)atomic_load(&device->lost));
	SIM_TRY(sim_failure());
	pthread_mutex_lock(&device->primary_lock);
	pthread_mutex_lock(&device->lock);
	if (device->primary_retains == 0) { // creates the context, or creates it again under the same handle
		result = sim_context_new(device, device->primary_flags, NULL, device->primary, &device->primary);
		if (result == CUDA_SUCCESS)
			device->primary->primary = true;
	}
	if (result == CUDA_SUCCESS) {
		device->primary_retains++;
		*ret_context = device->primary;
	}
	pthread_mutex_unlock(&device->lock);
	pthread_mutex_unlock(&device->primary_lock);
	return result;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct sim_device *device;
	struct sim_context *context;

	SIM_ENTER(cuDevicePrimaryCtxRetain);
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	SIM_TRY(sim_primary_retain(device, &context));
	*pctx = sim_context_handle(context);
	return CUDA_SUCCESS;
}

// Drops at most `count` references to the primary context, and ends the context with the last one. Returns false if it
// was not retained.
static bool drop_retains(struct sim_device *device, unsigned count)
{
	struct sim_context *ended = NULL;

	pthread_mutex_lock(&device->primary_lock);
	pthread_mutex_lock(&device->lock);
	bool was_retained = device->primary_retains > 0;
	if (was_retained) {
		device->primary_retains -= count < device->primary_retains ? count : device->primary_retains;
		if (device->primary_retains == 0)
			ended = device->primary;
	}
	pthread_mutex_unlock(&device->lock);
	if (ended)
		sim_context_end(ended);
	pthread_mutex_unlock(&device->primary_lock);
	return was_retained;
}

CUresult sim_primary_release(struct sim_device *device)
{
	return drop_retains(device, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	struct sim_device *device;

	SIM_ENTER(cuDevicePrimaryCtxRelease_v2);
	SIM_TRY(sim_device_get(dev, &device));
	return sim_primary_release(device);
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev)
{
	SIM_ENTER(cuDevicePrimaryCtxRelease);
	return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	struct sim_device *device;

	SIM_ENTER(cuDevicePrimaryCtxReset_v2);
	SIM_TRY(sim_device_get(dev, &device));
	(void)drop_retains(device, UINT_MAX);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice dev)
{
	SIM_ENTER(cuDevicePrimaryCtxReset);
	return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	struct sim_device *device;

	SIM_ENTER(cuDevicePrimaryCtxSetFlags_v2);
	SIM_TRY(sim_device_get(dev, &device));
	if (!sim_context_flags_are_valid(flags))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&device->lock);
	device->primary_flags = flags;
	if (device->primary_retains)
		device->primary->flags = flags;
	pthread_mutex_unlock(&device->lock);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	SIM_ENTER(cuDevicePrimaryCtxSetFlags);
	return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	struct sim_device *device;

	SIM_ENTER(cuDevicePrimaryCtxGetState);
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_device_get(dev, &device));
	pthread_mutex_lock(&device->lock);
	*flags = device->primary_flags;
	*active = device->primary_retains != 0;
	pthread_mutex_unlock(&device->lock);
	return CUDA_SUCCESS;
}
