// Implements the queries of a device by its ordinal, which need no context.
#include "runtime.h"

// Is the body of an entry point: finds the device `found` with the ordinal `device`, and calls `expression`.
#define WITH_DEVICE(expression)                                                             \
	do {                                                                                \
		struct rt_device *found = NULL;                                             \
		cudaError_t error = rt_initialize();                                        \
		if (error == cudaSuccess)                                                   \
			error = rt_device_get(device, &found);                              \
		return rt_record(error == cudaSuccess ? (cudaError_t)(expression) : error); \
	} while (0)

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
	WITH_DEVICE(rt_driver.cuDeviceGetAttribute(value, (CUdevice_attribute)attr, found->handle));
}

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
	WITH_DEVICE(rt_driver.cuDeviceGetPCIBusId(pciBusId, len, found->handle));
}

static cudaError_t find_bus(int *ret_ordinal, const char *bus)
{
	CUdevice handle;

	if (!ret_ordinal || !bus)
		return cudaErrorInvalidValue;
	RT_TRY(rt_driver.cuDeviceGetByPCIBusId(&handle, bus));
	*ret_ordinal = rt_device_ordinal(handle);
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
	RT_CALL_INITIALIZED(find_bus(device, pciBusId));
}

cudaError_t CUDARTAPI cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
	WITH_DEVICE(rt_driver.cuDeviceGetDefaultMemPool(memPool, found->handle));
}

// Returns a pool of a device. For an invalid ordinal, NVIDIA's runtime returns another error here than elsewhere.
static cudaError_t get_pool(cudaMemPool_t *ret_pool, int ordinal)
{
	struct rt_device *device;

	if (rt_device_get(ordinal, &device) != cudaSuccess)
		return cudaErrorInvalidValue;
	return (cudaError_t)rt_driver.cuDeviceGetMemPool(ret_pool, device->handle);
}

cudaError_t CUDARTAPI cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
	RT_CALL_INITIALIZED(get_pool(memPool, device));
}

cudaError_t CUDARTAPI cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
	WITH_DEVICE(rt_driver.cuDeviceSetMemPool(found->handle, memPool));
}

cudaError_t CUDARTAPI cudaDeviceGetNvSciSyncAttributes(void *nvSciSyncAttrList, int device, int flags)
{
	WITH_DEVICE(rt_driver.cuDeviceGetNvSciSyncAttributes(nvSciSyncAttrList, found->handle, flags));
}

cudaError_t CUDARTAPI cudaDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
							  const enum cudaAtomicOperation *operations,
							  unsigned int count, int device)
{
	WITH_DEVICE(rt_driver.cuDeviceGetHostAtomicCapabilities(capabilities, (const CUatomicOperation *)operations,
								count, found->handle));
}

cudaError_t CUDARTAPI cudaDeviceRegisterAsyncNotification(int device, cudaAsyncCallback callbackFunc, void *userData,
							  cudaAsyncCallbackHandle_t *callback)
{
	WITH_DEVICE(rt_driver.cuDeviceRegisterAsyncNotification(found->handle, (CUasyncCallback)callbackFunc, userData,
								(CUasyncCallbackHandle *)callback));
}

cudaError_t CUDARTAPI cudaDeviceUnregisterAsyncNotification(int device, cudaAsyncCallbackHandle_t callback)
{
	WITH_DEVICE(rt_driver.cuDeviceUnregisterAsyncNotification(found->handle, (CUasyncCallbackHandle)callback));
}

cudaError_t CUDARTAPI cudaDeviceGraphMemTrim(int device)
{
	WITH_DEVICE(rt_driver.cuDeviceGraphMemTrim(found->handle));
}

cudaError_t CUDARTAPI cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value)
{
	WITH_DEVICE(rt_driver.cuDeviceGetGraphMemAttribute(found->handle, (CUgraphMem_attribute)attr, value));
}

cudaError_t CUDARTAPI cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value)
{
	WITH_DEVICE(rt_driver.cuDeviceSetGraphMemAttribute(found->handle, (CUgraphMem_attribute)attr, value));
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *driverVersion)
{
	cudaError_t error = driverVersion ? cudaSuccess : cudaErrorInvalidValue;

	if (error == cudaSuccess && (rt_initialize(), !rt_driver.cuDriverGetVersion))
		*driverVersion = 0; // no driver is installed
	else if (error == cudaSuccess)
		error = rt_error(rt_driver.cuDriverGetVersion(driverVersion));
	return rt_record(error);
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *runtimeVersion)
{
	if (!runtimeVersion)
		return rt_record(cudaErrorInvalidValue);
	*runtimeVersion = CUDART_VERSION;
	return cudaSuccess;
}
