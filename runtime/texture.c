// Implements the functions for texture and surface objects.
#include "array.h"

static cudaError_t resource_to_driver(const struct cudaResourceDesc *resource, CUDA_RESOURCE_DESC *ret_resource)
{
	CUDA_RESOURCE_DESC made = {.flags = resource->flags};

	switch (resource->resType) {
	case cudaResourceTypeArray:
		made.resType = CU_RESOURCE_TYPE_ARRAY;
		made.res.array.hArray = (CUarray)resource->res.array.array;
		break;
	case cudaResourceTypeMipmappedArray:
		made.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
		made.res.mipmap.hMipmappedArray = (CUmipmappedArray)resource->res.mipmap.mipmap;
		break;
	case cudaResourceTypeLinear:
		made.resType = CU_RESOURCE_TYPE_LINEAR;
		made.res.linear.devPtr = (CUdeviceptr)resource->res.linear.devPtr;
		made.res.linear.sizeInBytes = resource->res.linear.sizeInBytes;
		RT_TRY(rt_format_of(&resource->res.linear.desc, &made.res.linear.format, &made.res.linear.numChannels));
		break;
	case cudaResourceTypePitch2D:
		made.resType = CU_RESOURCE_TYPE_PITCH2D;
		made.res.pitch2D.devPtr = (CUdeviceptr)resource->res.pitch2D.devPtr;
		made.res.pitch2D.width = resource->res.pitch2D.width;
		made.res.pitch2D.height = resource->res.pitch2D.height;
		made.res.pitch2D.pitchInBytes = resource->res.pitch2D.pitchInBytes;
		RT_TRY(rt_format_of(&resource->res.pitch2D.desc, &made.res.pitch2D.format,
				    &made.res.pitch2D.numChannels));
		break;
	default:
		return cudaErrorInvalidValue;
	}
	*ret_resource = made;
	return cudaSuccess;
}

static void resource_from_driver(const CUDA_RESOURCE_DESC *resource, struct cudaResourceDesc *ret_resource)
{
	struct cudaResourceDesc made = {.flags = resource->flags};

	switch (resource->resType) {
	case CU_RESOURCE_TYPE_ARRAY:
		made.resType = cudaResourceTypeArray;
		made.res.array.array = (cudaArray_t)resource->res.array.hArray;
		break;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		made.resType = cudaResourceTypeMipmappedArray;
		made.res.mipmap.mipmap = (cudaMipmappedArray_t)resource->res.mipmap.hMipmappedArray;
		break;
	case CU_RESOURCE_TYPE_LINEAR:
		made.resType = cudaResourceTypeLinear;
		made.res.linear.devPtr = (void *)resource->res.linear.devPtr;
		made.res.linear.sizeInBytes = resource->res.linear.sizeInBytes;
		made.res.linear.desc = rt_channels_of(resource->res.linear.format, resource->res.linear.numChannels);
		break;
	case CU_RESOURCE_TYPE_PITCH2D:
		made.resType = cudaResourceTypePitch2D;
		made.res.pitch2D.devPtr = (void *)resource->res.pitch2D.devPtr;
		made.res.pitch2D.width = resource->res.pitch2D.width;
		made.res.pitch2D.height = resource->res.pitch2D.height;
		made.res.pitch2D.pitchInBytes = resource->res.pitch2D.pitchInBytes;
		made.res.pitch2D.desc = rt_channels_of(resource->res.pitch2D.format, resource->res.pitch2D.numChannels);
		break;
	}
	*ret_resource = made;
}

// Converts a description to the driver's. The runtime has a flag for reading floats, the driver one for reading
// integers.
static CUDA_TEXTURE_DESC texture_to_driver(const struct cudaTextureDesc *texture)
{
	CUDA_TEXTURE_DESC made = {
		.filterMode = (CUfilter_mode)texture->filterMode,
		.maxAnisotropy = texture->maxAnisotropy,
		.mipmapFilterMode = (CUfilter_mode)texture->mipmapFilterMode,
		.mipmapLevelBias = texture->mipmapLevelBias,
		.minMipmapLevelClamp = texture->minMipmapLevelClamp,
		.maxMipmapLevelClamp = texture->maxMipmapLevelClamp,
	};

	for (int i = 0; i < 3; i++)
		made.addressMode[i] = (CUaddress_mode)texture->addressMode[i];
	memcpy(made.borderColor, texture->borderColor, sizeof made.borderColor);
	made.flags = (texture->readMode == cudaReadModeElementType ? CU_TRSF_READ_AS_INTEGER : 0) |
		     (texture->normalizedCoords ? CU_TRSF_NORMALIZED_COORDINATES : 0) |
		     (texture->sRGB ? CU_TRSF_SRGB : 0) |
		     (texture->disableTrilinearOptimization ? CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION : 0) |
		     (texture->seamlessCubemap ? CU_TRSF_SEAMLESS_CUBEMAP : 0);
	return made;
}

static struct cudaTextureDesc texture_from_driver(const CUDA_TEXTURE_DESC *texture)
{
	struct cudaTextureDesc made = {
		.filterMode = (enum cudaTextureFilterMode)texture->filterMode,
		.readMode = texture->flags & CU_TRSF_READ_AS_INTEGER ? cudaReadModeElementType
								     : cudaReadModeNormalizedFloat,
		.sRGB = (texture->flags & CU_TRSF_SRGB) != 0,
		.normalizedCoords = (texture->flags & CU_TRSF_NORMALIZED_COORDINATES) != 0,
		.maxAnisotropy = texture->maxAnisotropy,
		.mipmapFilterMode = (enum cudaTextureFilterMode)texture->mipmapFilterMode,
		.mipmapLevelBias = texture->mipmapLevelBias,
		.minMipmapLevelClamp = texture->minMipmapLevelClamp,
		.maxMipmapLevelClamp = texture->maxMipmapLevelClamp,
		.disableTrilinearOptimization = (texture->flags & CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION) != 0,
		.seamlessCubemap = (texture->flags & CU_TRSF_SEAMLESS_CUBEMAP) != 0,
	};

	for (int i = 0; i < 3; i++)
		made.addressMode[i] = (enum cudaTextureAddressMode)texture->addressMode[i];
	memcpy(made.borderColor, texture->borderColor, sizeof made.borderColor);
	return made;
}

_Static_assert(sizeof(struct cudaResourceViewDesc) == sizeof(CUDA_RESOURCE_VIEW_DESC), "views are passed unchanged");

static cudaError_t create_texture(cudaTextureObject_t *ret_object, const struct cudaResourceDesc *resource,
				  const struct cudaTextureDesc *texture, const struct cudaResourceViewDesc *view)
{
	CUDA_RESOURCE_DESC from;

	if (!ret_object || !resource || !texture)
		return cudaErrorInvalidValue;
	RT_TRY(resource_to_driver(resource, &from));
	const CUDA_TEXTURE_DESC description = texture_to_driver(texture);
	return rt_error(rt_driver.cuTexObjectCreate((CUtexObject *)ret_object, &from, &description,
						    (const CUDA_RESOURCE_VIEW_DESC *)view));
}

cudaError_t CUDARTAPI cudaCreateTextureObject(cudaTextureObject_t *pTexObject, const struct cudaResourceDesc *pResDesc,
					      const struct cudaTextureDesc *pTexDesc,
					      const struct cudaResourceViewDesc *pResViewDesc)
{
	RT_CALL(create_texture(pTexObject, pResDesc, pTexDesc, pResViewDesc));
}

cudaError_t CUDARTAPI cudaDestroyTextureObject(cudaTextureObject_t texObject)
{
	RT_CALL(texObject ? rt_driver.cuTexObjectDestroy(texObject) : CUDA_SUCCESS);
}

static cudaError_t get_resource(struct cudaResourceDesc *ret_resource, unsigned long long object, bool is_surface)
{
	CUDA_RESOURCE_DESC resource;

	if (!ret_resource)
		return cudaErrorInvalidValue;
	RT_TRY(is_surface ? rt_driver.cuSurfObjectGetResourceDesc(&resource, object)
			  : rt_driver.cuTexObjectGetResourceDesc(&resource, object));
	resource_from_driver(&resource, ret_resource);
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *pResDesc, cudaTextureObject_t texObject)
{
	RT_CALL(get_resource(pResDesc, texObject, false));
}

static cudaError_t get_texture(struct cudaTextureDesc *ret_texture, cudaTextureObject_t object)
{
	CUDA_TEXTURE_DESC texture;

	if (!ret_texture)
		return cudaErrorInvalidValue;
	RT_TRY(rt_driver.cuTexObjectGetTextureDesc(&texture, object));
	*ret_texture = texture_from_driver(&texture);
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *pTexDesc, cudaTextureObject_t texObject)
{
	RT_CALL(get_texture(pTexDesc, texObject));
}

cudaError_t CUDARTAPI cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *pResViewDesc,
							   cudaTextureObject_t texObject)
{
	RT_CALL(rt_driver.cuTexObjectGetResourceViewDesc((CUDA_RESOURCE_VIEW_DESC *)pResViewDesc, texObject));
}

static cudaError_t create_surface(cudaSurfaceObject_t *ret_object, const struct cudaResourceDesc *resource)
{
	CUDA_RESOURCE_DESC from;

	if (!ret_object || !resource)
		return cudaErrorInvalidValue;
	RT_TRY(resource_to_driver(resource, &from));
	return rt_error(rt_driver.cuSurfObjectCreate((CUsurfObject *)ret_object, &from));
}

cudaError_t CUDARTAPI cudaCreateSurfaceObject(cudaSurfaceObject_t *pSurfObject, const struct cudaResourceDesc *pResDesc)
{
	RT_CALL(create_surface(pSurfObject, pResDesc));
}

cudaError_t CUDARTAPI cudaDestroySurfaceObject(cudaSurfaceObject_t surfObject)
{
	RT_CALL(surfObject ? rt_driver.cuSurfObjectDestroy(surfObject) : CUDA_SUCCESS);
}

cudaError_t CUDARTAPI cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *pResDesc,
						       cudaSurfaceObject_t surfObject)
{
	RT_CALL(get_resource(pResDesc, surfObject, true));
}

static cudaError_t get_linear_width(size_t *ret_elements, const struct cudaChannelFormatDesc *channels, int ordinal)
{
	struct rt_device *device;
	CUarray_format format;
	unsigned count;

	if (!ret_elements || !channels)
		return cudaErrorInvalidValue;
	RT_TRY(rt_device_get(ordinal, &device));
	RT_TRY(rt_format_of(channels, &format, &count));
	return rt_error(rt_driver.cuDeviceGetTexture1DLinearMaxWidth(ret_elements, format, count, device->handle));
}

cudaError_t CUDARTAPI cudaDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements,
							   const struct cudaChannelFormatDesc *fmtDesc, int device)
{
	RT_CALL(get_linear_width(maxWidthInElements, fmtDesc, device));
}
