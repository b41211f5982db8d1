// Implements the functions for accesses and copies between devices.
#include "runtime.h"

static cudaError_t find_devices(int first, int second, struct rt_device **ret_first, struct rt_device **ret_second)
{
	RT_TRY(rt_device_get(first, ret_first));
	return rt_device_get(second, ret_second);
}

static cudaError_t can_access(int *ret_can, int first, int second)
{
	struct rt_device *device, *peer;

	RT_TRY(find_devices(first, second, &device, &peer));
	return rt_error(rt_driver.cuDeviceCanAccessPeer(ret_can, device->handle, peer->handle));
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
	RT_CALL_INITIALIZED(can_access(canAccessPeer, device, peerDevice));
}

static cudaError_t enable_access(int ordinal, unsigned flags)
{
	struct rt_device *peer;

	RT_TRY(rt_device_get(ordinal, &peer));
	RT_TRY(rt_device_retain(peer));
	return rt_error(rt_driver.cuCtxEnablePeerAccess(peer->primary, flags));
}

cudaError_t CUDARTAPI cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
	RT_CALL(enable_access(peerDevice, flags));
}

static cudaError_t disable_access(int ordinal)
{
	struct rt_device *peer;

	RT_TRY(rt_device_get(ordinal, &peer));
	if (!peer->active)
		return cudaErrorPeerAccessNotEnabled;
	return rt_error(rt_driver.cuCtxDisablePeerAccess(peer->primary));
}

cudaError_t CUDARTAPI cudaDeviceDisablePeerAccess(int peerDevice)
{
	RT_CALL(disable_access(peerDevice));
}

static cudaError_t get_attribute(int *value, enum cudaDeviceP2PAttr attribute, int first, int second)
{
	struct rt_device *device, *peer;

	RT_TRY(find_devices(first, second, &device, &peer));
	return rt_error(rt_driver.cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute, device->handle,
							  peer->handle));
}

cudaError_t CUDARTAPI cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice)
{
	RT_CALL_INITIALIZED(get_attribute(value, attr, srcDevice, dstDevice));
}

static cudaError_t get_atomics(unsigned *capabilities, const enum cudaAtomicOperation *operations, unsigned count,
			       int first, int second)
{
	struct rt_device *device, *peer;

	RT_TRY(find_devices(first, second, &device, &peer));
	return rt_error(rt_driver.cuDeviceGetP2PAtomicCapabilities(capabilities, (const CUatomicOperation *)operations,
								   count, device->handle, peer->handle));
}

cudaError_t CUDARTAPI cudaDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
							 const enum cudaAtomicOperation *operations, unsigned int count,
							 int srcDevice, int dstDevice)
{
	RT_CALL_INITIALIZED(get_atomics(capabilities, operations, count, srcDevice, dstDevice));
}

static cudaError_t get_contexts(int first, int second, CUcontext *ret_first, CUcontext *ret_second)
{
	struct rt_device *device, *peer;

	RT_TRY(find_devices(first, second, &device, &peer));
	RT_TRY(rt_device_retain(device));
	RT_TRY(rt_device_retain(peer));
	*ret_first = device->primary;
	*ret_second = peer->primary;
	return cudaSuccess;
}

static cudaError_t copy_between(void *to, int to_device, const void *from, int from_device, size_t size)
{
	CUcontext to_context, from_context;

	RT_TRY(get_contexts(to_device, from_device, &to_context, &from_context));
	return size == 0 ? cudaSuccess
			 : rt_error(rt_driver.cuMemcpyPeer((CUdeviceptr)to, to_context, (CUdeviceptr)from, from_context,
							   size));
}

cudaError_t CUDARTAPI cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
	RT_CALL(copy_between(dst, dstDevice, src, srcDevice, count));
}

static cudaError_t copy_between_async(void *to, int to_device, const void *from, int from_device, size_t size,
				      cudaStream_t stream)
{
	CUcontext to_context, from_context;

	RT_TRY(get_contexts(to_device, from_device, &to_context, &from_context));
	return size == 0 ? cudaSuccess
			 : rt_error(rt_driver.cuMemcpyPeerAsync((CUdeviceptr)to, to_context, (CUdeviceptr)from,
								from_context, size, stream));
}

cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t count,
					  cudaStream_t stream)
{
	RT_CALL(copy_between_async(dst, dstDevice, src, srcDevice, count, stream));
}
