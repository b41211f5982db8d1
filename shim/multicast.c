// Charges multicast objects. They have no memory of their own, but keep the memory that is bound to them allocated. A
// multicast object, like memory, exists until its last handle and mapping is released.
#include "shim/mapping.h"

SHIM_EXPORT CUresult CUDAAPI cuMulticastCreate(CUmemGenericAllocationHandle *handle,
					       const CUmulticastObjectProp *properties)
{
	CUresult result = REAL(cuMulticastCreate)(handle, properties);

	return result == CUDA_SUCCESS && shim_enforcing() ? shim_handle_store(*handle, VG_LEDGER_VMM, 0) : result;
}

SHIM_EXPORT CUresult CUDAAPI cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t offset,
						CUmemGenericAllocationHandle handle, size_t handle_offset, size_t size,
						unsigned long long flags)
{
	uint64_t bytes;
	// Keep the memory until the call returns, because another thread may release the handle meanwhile.
	struct shim_physical *physical = shim_counting() ? shim_handle_find(handle, &bytes) : NULL;
	CUresult result = REAL(cuMulticastBindMem)(multicast, offset, handle, handle_offset, size, flags);

	if (physical && result == CUDA_SUCCESS)
		shim_physical_pin(physical, shim_multicast_owner(multicast), offset);
	else
		shim_physical_unref(physical);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, size_t offset,
						 CUdeviceptr address, size_t size, unsigned long long flags)
{
	CUresult result = REAL(cuMulticastBindAddr)(multicast, offset, address, size, flags);

	if (result == CUDA_SUCCESS && shim_counting())
		shim_pin_address(address, shim_multicast_owner(multicast), offset);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMulticastUnbind(CUmemGenericAllocationHandle multicast, CUdevice device, size_t offset,
					       size_t size)
{
	CUresult result = REAL(cuMulticastUnbind)(multicast, device, offset, size);

	if (result == CUDA_SUCCESS && shim_counting())
		shim_unpin(shim_multicast_owner(multicast), offset);
	return result;
}
