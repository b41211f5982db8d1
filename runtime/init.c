// Initializes the library, retains the devices' primary contexts, and keeps which device each thread uses.
#include "runtime.h"

#include <stdlib.h>

_Thread_local struct rt_thread rt_thread;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t state = cudaErrorInitializationError;
static struct rt_device *devices;
static int device_count;
static pthread_mutex_t retain_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int inactive; // number of primary contexts that were reset and are not retained again yet
static atomic_bool forked;  // true in a forked child whose parent used the driver, so that no call can succeed

static void after_fork(void)
{
	forked = true;
}

static cudaError_t find_devices(void)
{
	int count = 0;

	RT_TRY(rt_driver_load());
	RT_TRY(rt_driver.cuInit(0));
	RT_TRY(rt_driver.cuDeviceGetCount(&count));
	if (count == 0)
		return cudaErrorNoDevice;
	devices = calloc((size_t)count, sizeof *devices);
	if (!devices)
		return cudaErrorMemoryAllocation;
	for (int i = 0; i < count; i++)
		RT_TRY(rt_driver.cuDeviceGet(&devices[i].handle, i));
	device_count = count;
	return cudaSuccess;
}

static void initialize(void)
{
	state = find_devices();
	if (state == cudaSuccess)
		pthread_atfork(NULL, NULL, after_fork);
}

cudaError_t rt_initialize(void)
{
	pthread_once(&once, initialize);
	return atomic_load_explicit(&forked, memory_order_relaxed) ? cudaErrorInitializationError : state;
}

int rt_device_count(void)
{
	return device_count;
}

cudaError_t rt_device_get(int ordinal, struct rt_device **ret_device)
{
	if (ordinal < 0 || ordinal >= device_count)
		return cudaErrorInvalidDevice;
	*ret_device = &devices[ordinal];
	return cudaSuccess;
}

int rt_device_ordinal(CUdevice handle)
{
	for (int i = 0; i < device_count; i++)
		if (devices[i].handle == handle)
			return i;
	return 0;
}

cudaError_t rt_device_retain(struct rt_device *device)
{
	cudaError_t error = cudaSuccess;

	if (atomic_load_explicit(&device->active, memory_order_acquire))
		return cudaSuccess;
	pthread_mutex_lock(&retain_lock);
	if (!device->active) {
		bool was_reset = device->primary != NULL;
		error = rt_error(rt_driver.cuDevicePrimaryCtxRetain(&device->primary, device->handle));
		if (error == cudaSuccess) {
			atomic_store(&device->active, true);
			if (was_reset)
				atomic_fetch_sub(&inactive, 1);
		}
	}
	pthread_mutex_unlock(&retain_lock);
	return error;
}

cudaError_t rt_device_current(int *ret_ordinal)
{
	CUcontext current = NULL;
	CUdevice handle;

	rt_driver.cuCtxGetCurrent(&current);
	if (current && rt_driver.cuCtxGetDevice(&handle) == CUDA_SUCCESS)
		*ret_ordinal = rt_device_ordinal(handle);
	else
		*ret_ordinal = rt_thread.device;
	return cudaSuccess;
}

static cudaError_t make_current(struct rt_device *device)
{
	RT_TRY(rt_device_retain(device));
	RT_TRY(rt_driver.cuCtxSetCurrent(device->primary));
	return rt_images_load_managed();
}

cudaError_t rt_device_choose(int ordinal)
{
	struct rt_device *device;

	RT_TRY(rt_device_get(ordinal, &device));
	rt_thread.device = ordinal;
	rt_thread.has_chosen = true;
	return make_current(device);
}

cudaError_t rt_device_reset(int ordinal)
{
	struct rt_device *device;
	cudaError_t error;

	RT_TRY(rt_device_get(ordinal, &device));
	pthread_mutex_lock(&retain_lock);
	error = rt_error(rt_driver.cuDevicePrimaryCtxReset_v2(device->handle));
	if (error == cudaSuccess && device->active) {
		atomic_store(&device->active, false);
		atomic_fetch_add(&inactive, 1);
	}
	pthread_mutex_unlock(&retain_lock);
	return error;
}

// Returns whether the context is a primary context that was reset.
static bool was_reset(CUcontext context)
{
	for (int i = 0; i < device_count; i++)
		if (devices[i].primary == context)
			return !devices[i].active;
	return false;
}

// Makes a primary context current if no context is, or if the current one was reset.
static cudaError_t replace_context(CUcontext current)
{
	struct rt_device *device;

	if (current && !was_reset(current))
		return cudaSuccess;
	if (current)
		for (int i = 0; i < device_count; i++)
			if (devices[i].primary == current)
				return make_current(&devices[i]);
	RT_TRY(rt_device_get(rt_thread.device, &device));
	return make_current(device);
}

cudaError_t rt_enter(void)
{
	CUcontext current = NULL;

	RT_TRY(rt_initialize());
	RT_TRY(rt_driver.cuCtxGetCurrent(&current));
	if (current && atomic_load_explicit(&inactive, memory_order_relaxed) == 0)
		return cudaSuccess;
	return replace_context(current);
}
