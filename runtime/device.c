// Implements the functions for devices: number, selection, flags, limits, reset.
#include "runtime.h"

#include <cuda_profiler_api.h>

static cudaError_t count_devices(int *ret_count)
{
	if (!ret_count)
		return cudaErrorInvalidValue;
	*ret_count = rt_device_count();
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count)
{
	RT_CALL_INITIALIZED(count_devices(count));
}

cudaError_t CUDARTAPI cudaGetDevice(int *device)
{
	RT_CALL_INITIALIZED(device ? rt_device_current(device) : cudaErrorInvalidValue);
}

cudaError_t CUDARTAPI cudaSetDevice(int device)
{
	RT_CALL_INITIALIZED(rt_device_choose(device));
}

static cudaError_t set_flags(int ordinal, unsigned flags)
{
	struct rt_device *device;

	RT_TRY(rt_device_get(ordinal, &device));
	if (flags & ~(unsigned)cudaDeviceMask)
		return cudaErrorInvalidValue;
	return rt_error(rt_driver.cuDevicePrimaryCtxSetFlags_v2(device->handle, flags));
}

static cudaError_t set_current_flags(unsigned flags)
{
	int ordinal;

	RT_TRY(rt_device_current(&ordinal));
	return set_flags(ordinal, flags);
}

cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned int flags)
{
	RT_CALL_INITIALIZED(set_current_flags(flags));
}

static cudaError_t get_flags(unsigned *ret_flags)
{
	struct rt_device *device;
	int ordinal, active;

	if (!ret_flags)
		return cudaErrorInvalidValue;
	RT_TRY(rt_device_current(&ordinal));
	RT_TRY(rt_device_get(ordinal, &device));
	return rt_error(rt_driver.cuDevicePrimaryCtxGetState(device->handle, ret_flags, &active));
}

cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned int *flags)
{
	RT_CALL_INITIALIZED(get_flags(flags));
}

static cudaError_t init_device(int ordinal, unsigned device_flags, unsigned flags)
{
	struct rt_device *device;

	RT_TRY(rt_device_get(ordinal, &device));
	if (flags & ~(unsigned)cudaInitDeviceFlagsAreValid)
		return cudaErrorInvalidValue;
	if (flags & cudaInitDeviceFlagsAreValid)
		RT_TRY(set_flags(ordinal, device_flags));
	return rt_device_retain(device);
}

cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
	RT_CALL_INITIALIZED(init_device(device, deviceFlags, flags));
}

// Chooses the first valid device of a list for the thread, unless the thread has chosen a device already.
static cudaError_t set_valid(const int *ordinals, int count)
{
	struct rt_device *device;

	if (count < 0 || (count > 0 && !ordinals) || count > rt_device_count())
		return cudaErrorInvalidValue;
	for (int i = 0; i < count; i++)
		RT_TRY(rt_device_get(ordinals[i], &device));
	if (!rt_thread.has_chosen)
		rt_thread.device = count ? ordinals[0] : 0;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaSetValidDevices(int *device_arr, int len)
{
	RT_CALL_INITIALIZED(set_valid(device_arr, len));
}

static cudaError_t reset_device(void)
{
	int ordinal;

	RT_TRY(rt_device_current(&ordinal));
	return rt_device_reset(ordinal);
}

cudaError_t CUDARTAPI cudaDeviceReset(void)
{
	RT_CALL_INITIALIZED(reset_device());
}

cudaError_t CUDARTAPI cudaDeviceSynchronize(void)
{
	RT_CALL(rt_driver.cuCtxSynchronize());
}

cudaError_t CUDARTAPI cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	RT_CALL(rt_driver.cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t CUDARTAPI cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit)
{
	RT_CALL(rt_driver.cuCtxGetLimit(pValue, (CUlimit)limit));
}

cudaError_t CUDARTAPI cudaDeviceGetCacheConfig(enum cudaFuncCache *pCacheConfig)
{
	RT_CALL(rt_driver.cuCtxGetCacheConfig((CUfunc_cache *)pCacheConfig));
}

cudaError_t CUDARTAPI cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig)
{
	RT_CALL(rt_driver.cuCtxSetCacheConfig((CUfunc_cache)cacheConfig));
}

cudaError_t CUDARTAPI cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *pConfig)
{
	RT_CALL(rt_driver.cuCtxGetSharedMemConfig((CUsharedconfig *)pConfig));
}

cudaError_t CUDARTAPI cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
	RT_CALL(rt_driver.cuCtxSetSharedMemConfig((CUsharedconfig)config));
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	RT_CALL(rt_driver.cuCtxGetStreamPriorityRange(leastPriority, greatestPriority));
}

cudaError_t CUDARTAPI cudaCtxResetPersistingL2Cache(void)
{
	RT_CALL(rt_driver.cuCtxResetPersistingL2Cache());
}

cudaError_t CUDARTAPI cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
							 enum cudaFlushGPUDirectRDMAWritesScope scope)
{
	RT_CALL(rt_driver.cuFlushGPUDirectRDMAWrites((CUflushGPUDirectRDMAWritesTarget)target,
						     (CUflushGPUDirectRDMAWritesScope)scope));
}

cudaError_t CUDARTAPI cudaProfilerStart(void)
{
	RT_CALL(rt_driver.cuProfilerStart());
}

cudaError_t CUDARTAPI cudaProfilerStop(void)
{
	RT_CALL(rt_driver.cuProfilerStop());
}
