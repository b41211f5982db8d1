// Implements the functions for device and host memory.
#include "runtime.h"

static cudaError_t allocate_device(void **ret_pointer, size_t size)
{
	CUdeviceptr address = 0;

	if (!ret_pointer)
		return cudaErrorInvalidValue;
	// For size 0, return NULL, which cudaFree() accepts.
	if (size)
		RT_TRY(rt_driver.cuMemAlloc_v2(&address, size));
	*ret_pointer = (void *)address;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMalloc(void **devPtr, size_t size)
{
	RT_CALL(allocate_device(devPtr, size));
}

cudaError_t CUDARTAPI cudaFree(void *devPtr)
{
	RT_CALL(devPtr ? rt_driver.cuMemFree_v2((CUdeviceptr)devPtr) : CUDA_SUCCESS);
}

static cudaError_t allocate_pitch(void **ret_pointer, size_t *ret_pitch, size_t width, size_t height)
{
	CUdeviceptr address = 0;

	if (!ret_pointer || !ret_pitch)
		return cudaErrorInvalidValue;
	if (width && height)
		RT_TRY(rt_driver.cuMemAllocPitch_v2(&address, ret_pitch, width, height, 4));
	else
		*ret_pitch = 0;
	*ret_pointer = (void *)address;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
	RT_CALL(allocate_pitch(devPtr, pitch, width, height));
}

static cudaError_t allocate_3d(struct cudaPitchedPtr *ret_pointer, struct cudaExtent extent)
{
	struct cudaPitchedPtr made = {.xsize = extent.width, .ysize = extent.height};
	size_t rows;

	if (!ret_pointer || __builtin_mul_overflow(extent.height, extent.depth, &rows))
		return cudaErrorInvalidValue;
	RT_TRY(allocate_pitch(&made.ptr, &made.pitch, extent.width, rows));
	*ret_pointer = made;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
	RT_CALL(allocate_3d(pitchedDevPtr, extent));
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free, size_t *total)
{
	size_t unwanted;

	RT_CALL(rt_driver.cuMemGetInfo_v2(free ? free : &unwanted, total ? total : &unwanted));
}

static cudaError_t allocate_host(void **ret_pointer, size_t size, unsigned flags)
{
	void *pointer = NULL;

	if (!ret_pointer)
		return cudaErrorInvalidValue;
	if (size)
		RT_TRY(rt_driver.cuMemHostAlloc(&pointer, size, flags));
	*ret_pointer = pointer;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
	RT_CALL(allocate_host(pHost, size, flags));
}

cudaError_t CUDARTAPI cudaMallocHost(void **ptr, size_t size)
{
	RT_CALL(allocate_host(ptr, size, 0));
}

cudaError_t CUDARTAPI cudaFreeHost(void *ptr)
{
	RT_CALL(ptr ? rt_driver.cuMemFreeHost(ptr) : CUDA_SUCCESS);
}

cudaError_t CUDARTAPI cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
	RT_CALL(rt_driver.cuMemHostRegister_v2(ptr, size, flags));
}

cudaError_t CUDARTAPI cudaHostUnregister(void *ptr)
{
	RT_CALL(rt_driver.cuMemHostUnregister(ptr));
}

cudaError_t CUDARTAPI cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
	RT_CALL(rt_driver.cuMemHostGetDevicePointer_v2((CUdeviceptr *)pDevice, pHost, flags));
}

cudaError_t CUDARTAPI cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
	RT_CALL(rt_driver.cuMemHostGetFlags(pFlags, pHost));
}

static cudaError_t get_pointer_attributes(struct cudaPointerAttributes *ret_attributes, const void *pointer)
{
	struct cudaPointerAttributes attributes = {.type = cudaMemoryTypeUnregistered, .device = cudaInvalidDeviceId};
	CUdeviceptr device = 0;
	CUmemorytype type = 0;
	void *host = NULL;
	int ordinal = cudaInvalidDeviceId;
	CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
				       CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
				       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	unsigned managed = 0; // the driver may write only one byte of the value
	void *values[] = {&type, &device, &host, &managed, &ordinal};

	if (!ret_attributes)
		return cudaErrorInvalidValue;
	RT_TRY(rt_driver.cuPointerGetAttributes(5, which, values, (CUdeviceptr)pointer));
	if (type != 0) {
		attributes.type = managed & 0xff	       ? cudaMemoryTypeManaged
				  : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
							       : cudaMemoryTypeDevice;
		attributes.device = ordinal;
		attributes.devicePointer = (void *)device;
		attributes.hostPointer = host;
	}
	*ret_attributes = attributes;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	RT_CALL(get_pointer_attributes(attributes, ptr));
}

static cudaError_t allocate_managed(void **ret_pointer, size_t size, unsigned flags)
{
	CUdeviceptr address = 0;

	if (!ret_pointer)
		return cudaErrorInvalidValue;
	if (size)
		RT_TRY(rt_driver.cuMemAllocManaged(&address, size, flags));
	*ret_pointer = (void *)address;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
	RT_CALL(allocate_managed(devPtr, size, flags));
}

static CUmemLocation convert_location(struct cudaMemLocation location)
{
	return (CUmemLocation){.type = (CUmemLocationType)location.type, .id = location.id};
}

cudaError_t CUDARTAPI cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
				    struct cudaMemLocation location)
{
	RT_CALL(rt_driver.cuMemAdvise_v2((CUdeviceptr)devPtr, count, (CUmem_advise)advice, convert_location(location)));
}

cudaError_t CUDARTAPI cudaMemRangeGetAttribute(void *data, size_t dataSize, enum cudaMemRangeAttribute attribute,
					       const void *devPtr, size_t count)
{
	RT_CALL(rt_driver.cuMemRangeGetAttribute(data, dataSize, (CUmem_range_attribute)attribute, (CUdeviceptr)devPtr,
						 count));
}

cudaError_t CUDARTAPI cudaMemRangeGetAttributes(void **data, size_t *dataSizes, enum cudaMemRangeAttribute *attributes,
						size_t numAttributes, const void *devPtr, size_t count)
{
	RT_CALL(rt_driver.cuMemRangeGetAttributes(data, dataSizes, (CUmem_range_attribute *)attributes, numAttributes,
						  (CUdeviceptr)devPtr, count));
}
