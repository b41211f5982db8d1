// Implements the functions for arrays and mipmapped arrays.
#include "array.h"

static cudaError_t describe_array(const struct cudaChannelFormatDesc *channels, struct cudaExtent extent,
				  unsigned flags, CUDA_ARRAY3D_DESCRIPTOR_v2 *ret_descriptor)
{
	CUDA_ARRAY3D_DESCRIPTOR_v2 made = {
		.Width = extent.width, .Height = extent.height, .Depth = extent.depth, .Flags = flags};

	if (!channels)
		return cudaErrorInvalidValue;
	RT_TRY(rt_format_of(channels, &made.Format, &made.NumChannels));
	*ret_descriptor = made;
	return cudaSuccess;
}

static cudaError_t create_array(cudaArray_t *ret_array, const struct cudaChannelFormatDesc *channels,
				struct cudaExtent extent, unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor;

	if (!ret_array)
		return cudaErrorInvalidValue;
	RT_TRY(describe_array(channels, extent, flags, &descriptor));
	return rt_error(rt_driver.cuArray3DCreate_v2((CUarray *)ret_array, &descriptor));
}

cudaError_t CUDARTAPI cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, size_t width,
				      size_t height, unsigned int flags)
{
	const struct cudaExtent extent = {width, height, 0};

	RT_CALL(create_array(array, desc, extent, flags));
}

cudaError_t CUDARTAPI cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
					struct cudaExtent extent, unsigned int flags)
{
	RT_CALL(create_array(array, desc, extent, flags));
}

static cudaError_t create_mipmapped(cudaMipmappedArray_t *ret_array, const struct cudaChannelFormatDesc *channels,
				    struct cudaExtent extent, unsigned levels, unsigned flags)
{
	CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor;

	if (!ret_array)
		return cudaErrorInvalidValue;
	RT_TRY(describe_array(channels, extent, flags, &descriptor));
	return rt_error(rt_driver.cuMipmappedArrayCreate((CUmipmappedArray *)ret_array, &descriptor, levels));
}

cudaError_t CUDARTAPI cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray,
					       const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
					       unsigned int numLevels, unsigned int flags)
{
	RT_CALL(create_mipmapped(mipmappedArray, desc, extent, numLevels, flags));
}

cudaError_t CUDARTAPI cudaFreeArray(cudaArray_t array)
{
	RT_CALL(array ? rt_driver.cuArrayDestroy((CUarray)array) : CUDA_SUCCESS);
}

cudaError_t CUDARTAPI cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray)
{
	RT_CALL(mipmappedArray ? rt_driver.cuMipmappedArrayDestroy((CUmipmappedArray)mipmappedArray) : CUDA_SUCCESS);
}

cudaError_t CUDARTAPI cudaGetMipmappedArrayLevel(cudaArray_t *levelArray, cudaMipmappedArray_const_t mipmappedArray,
						 unsigned int level)
{
	RT_CALL(rt_driver.cuMipmappedArrayGetLevel((CUarray *)levelArray, (CUmipmappedArray)mipmappedArray, level));
}

static cudaError_t get_info(struct cudaChannelFormatDesc *channels, struct cudaExtent *extent, unsigned *flags,
			    cudaArray_const_t array)
{
	CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor;

	RT_TRY(rt_driver.cuArray3DGetDescriptor_v2(&descriptor, (CUarray)array));
	if (channels)
		*channels = rt_channels_of(descriptor.Format, descriptor.NumChannels);
	if (extent)
		*extent = (struct cudaExtent){descriptor.Width, descriptor.Height, descriptor.Depth};
	if (flags)
		*flags = descriptor.Flags;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
				       unsigned int *flags, cudaArray_t array)
{
	RT_CALL(get_info(desc, extent, flags, array));
}

cudaError_t CUDARTAPI cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array)
{
	RT_CALL(desc ? get_info(desc, NULL, NULL, array) : cudaErrorInvalidValue);
}

cudaError_t CUDARTAPI cudaArrayGetPlane(cudaArray_t *pPlaneArray, cudaArray_t hArray, unsigned int planeIdx)
{
	RT_CALL(rt_driver.cuArrayGetPlane((CUarray *)pPlaneArray, (CUarray)hArray, planeIdx));
}

_Static_assert(sizeof(struct cudaArrayMemoryRequirements) == sizeof(CUDA_ARRAY_MEMORY_REQUIREMENTS),
	       "passed unchanged");
_Static_assert(sizeof(struct cudaArraySparseProperties) == sizeof(CUDA_ARRAY_SPARSE_PROPERTIES), "passed unchanged");

static cudaError_t get_requirements(struct cudaArrayMemoryRequirements *ret, CUarray array, CUmipmappedArray mipmapped,
				    int ordinal)
{
	CUDA_ARRAY_MEMORY_REQUIREMENTS *to = (CUDA_ARRAY_MEMORY_REQUIREMENTS *)ret;
	struct rt_device *device;

	RT_TRY(rt_device_get(ordinal, &device));
	return rt_error(array ? rt_driver.cuArrayGetMemoryRequirements(to, array, device->handle)
			      : rt_driver.cuMipmappedArrayGetMemoryRequirements(to, mipmapped, device->handle));
}

cudaError_t CUDARTAPI cudaArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements *memoryRequirements,
						     cudaArray_t array, int device)
{
	RT_CALL(array ? get_requirements(memoryRequirements, (CUarray)array, NULL, device) : cudaErrorInvalidValue);
}

cudaError_t CUDARTAPI cudaMipmappedArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements *memoryRequirements,
							      cudaMipmappedArray_t mipmap, int device)
{
	RT_CALL(get_requirements(memoryRequirements, NULL, (CUmipmappedArray)mipmap, device));
}

cudaError_t CUDARTAPI cudaArrayGetSparseProperties(struct cudaArraySparseProperties *sparseProperties,
						   cudaArray_t array)
{
	RT_CALL(rt_driver.cuArrayGetSparseProperties((CUDA_ARRAY_SPARSE_PROPERTIES *)sparseProperties, (CUarray)array));
}

cudaError_t CUDARTAPI cudaMipmappedArrayGetSparseProperties(struct cudaArraySparseProperties *sparseProperties,
							    cudaMipmappedArray_t mipmap)
{
	RT_CALL(rt_driver.cuMipmappedArrayGetSparseProperties((CUDA_ARRAY_SPARSE_PROPERTIES *)sparseProperties,
							      (CUmipmappedArray)mipmap));
}
