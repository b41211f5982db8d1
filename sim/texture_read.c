// Converts the program's description of a texture or surface to what kernels see. Makes the checks that NVIDIA
// documents for cuTexObjectCreate and cuSurfObjectCreate.
#include "array.h"
#include "memory.h"
#include "texture.h"

enum {
	LINEAR_MOST = 1 << 28,
	PITCH2D_WIDTH_MOST = 131072,
	PITCH2D_HEIGHT_MOST = 65000,
	PITCH2D_PITCH_MOST = 2097120,
	BASE_ALIGNMENT = 512,
	PITCH_ALIGNMENT = 32,
	FLAGS = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
		CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP
};

static bool find_format(CUarray_format format, enum ptx_texel_format *ret_format)
{
	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
		*ret_format = PTX_TEXEL_U8;
		return true;
	case CU_AD_FORMAT_SIGNED_INT8:
		*ret_format = PTX_TEXEL_S8;
		return true;
	case CU_AD_FORMAT_UNSIGNED_INT16:
		*ret_format = PTX_TEXEL_U16;
		return true;
	case CU_AD_FORMAT_SIGNED_INT16:
		*ret_format = PTX_TEXEL_S16;
		return true;
	case CU_AD_FORMAT_UNSIGNED_INT32:
		*ret_format = PTX_TEXEL_U32;
		return true;
	case CU_AD_FORMAT_SIGNED_INT32:
		*ret_format = PTX_TEXEL_S32;
		return true;
	case CU_AD_FORMAT_HALF:
		*ret_format = PTX_TEXEL_F16;
		return true;
	case CU_AD_FORMAT_FLOAT:
		*ret_format = PTX_TEXEL_F32;
		return true;
	default:
		return false;
	}
}

size_t sim_texture_bytes(CUarray_format format, unsigned channels)
{
	enum ptx_texel_format texel;

	return find_format(format, &texel) ? ptx_texel_channel_bytes(texel) * channels : 0;
}

static CUresult set_format(struct ptx_texture *texture, CUarray_format format, unsigned channels)
{
	if (!find_format(format, &texture->format) || (channels != 1 && channels != 2 && channels != 4))
		return CUDA_ERROR_INVALID_VALUE;
	texture->channels = (uint8_t)channels;
	texture->texel_bytes = (uint8_t)(ptx_texel_channel_bytes(texture->format) * channels);
	return CUDA_SUCCESS;
}

static CUresult read_linear(const CUDA_RESOURCE_DESC *resource, struct ptx_texture *texture)
{
	CUdeviceptr address = resource->res.linear.devPtr;
	size_t bytes = resource->res.linear.sizeInBytes;
	struct sim_pointer pointer;

	SIM_TRY(set_format(texture, resource->res.linear.format, resource->res.linear.numChannels));
	if (!address || address % BASE_ALIGNMENT || bytes < texture->texel_bytes ||
	    bytes / texture->texel_bytes > LINEAR_MOST || !sim_pointer_find(address, &pointer))
		return CUDA_ERROR_INVALID_VALUE;
	texture->is_linear = true;
	texture->axes = 1;
	texture->level_count = 1;
	texture->levels[0] = (struct ptx_image){
		.address = address, .width = (uint32_t)(bytes / texture->texel_bytes), .height = 1, .depth = 1};
	return CUDA_SUCCESS;
}

static CUresult read_pitch2d(const CUDA_RESOURCE_DESC *resource, struct ptx_texture *texture)
{
	CUdeviceptr address = resource->res.pitch2D.devPtr;
	size_t width = resource->res.pitch2D.width, height = resource->res.pitch2D.height;
	size_t pitch = resource->res.pitch2D.pitchInBytes;
	struct sim_pointer pointer;

	SIM_TRY(set_format(texture, resource->res.pitch2D.format, resource->res.pitch2D.numChannels));
	if (!address || address % BASE_ALIGNMENT || !width || !height || width > PITCH2D_WIDTH_MOST ||
	    height > PITCH2D_HEIGHT_MOST || pitch % PITCH_ALIGNMENT || pitch > PITCH2D_PITCH_MOST ||
	    pitch < width * texture->texel_bytes || !sim_pointer_find(address, &pointer))
		return CUDA_ERROR_INVALID_VALUE;
	texture->axes = 2;
	texture->level_count = 1;
	texture->levels[0] = (struct ptx_image){.address = address,
						.pitch = pitch,
						.slice = pitch * height,
						.width = (uint32_t)width,
						.height = (uint32_t)height,
						.depth = 1};
	return CUDA_SUCCESS;
}

static CUresult read_arrays(struct sim_array *const *levels, unsigned count, struct ptx_texture *texture)
{
	const CUDA_ARRAY3D_DESCRIPTOR *descriptor = &levels[0]->descriptor;
	bool cube = descriptor->Flags & CUDA_ARRAY3D_CUBEMAP, layered = descriptor->Flags & CUDA_ARRAY3D_LAYERED;

	SIM_TRY(set_format(texture, descriptor->Format, descriptor->NumChannels));
	texture->axes = !descriptor->Height ? 1 : !descriptor->Depth || cube || layered ? 2 : 3;
	texture->layers = layered ? (uint32_t)levels[0]->depth / (cube ? 6 : 1) : 0;
	texture->level_count = count;
	for (unsigned i = 0; i < count; i++)
		texture->levels[i] = (struct ptx_image){.address = levels[i]->base,
							.pitch = levels[i]->pitch,
							.slice = levels[i]->slice,
							.tiles = levels[i]->tiles,
							.width = (uint32_t)levels[i]->width,
							.height = (uint32_t)levels[i]->height,
							.depth = (uint32_t)levels[i]->depth};
	return CUDA_SUCCESS;
}

static CUresult read_resource(const CUDA_RESOURCE_DESC *resource, struct ptx_texture *texture, unsigned *ret_flags)
{
	struct sim_array *array, *const *levels = &array;
	unsigned count = 1;

	*ret_flags = 0;
	if (resource->flags)
		return CUDA_ERROR_INVALID_VALUE;
	switch (resource->resType) {
	case CU_RESOURCE_TYPE_LINEAR:
		return read_linear(resource, texture);
	case CU_RESOURCE_TYPE_PITCH2D:
		return read_pitch2d(resource, texture);
	case CU_RESOURCE_TYPE_ARRAY:
		SIM_TRY(sim_array_get(resource->res.array.hArray, &array));
		break;
	case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
		SIM_TRY(sim_mipmap_levels(resource->res.mipmap.hMipmappedArray, &count, &levels));
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	*ret_flags = levels[0]->descriptor.Flags;
	return read_arrays(levels, count, texture);
}

// Finds the format of a view. CUresourceViewFormat has each type with 1, 2 and 4 channels.
static bool find_view_format(CUresourceViewFormat view, CUarray_format *ret_format, unsigned *ret_channels)
{
	static const CUarray_format formats[] = {CU_AD_FORMAT_UNSIGNED_INT8,  CU_AD_FORMAT_SIGNED_INT8,
						 CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_SIGNED_INT16,
						 CU_AD_FORMAT_UNSIGNED_INT32, CU_AD_FORMAT_SIGNED_INT32,
						 CU_AD_FORMAT_HALF,	      CU_AD_FORMAT_FLOAT};

	if (view < CU_RES_VIEW_FORMAT_UINT_1X8 || view > CU_RES_VIEW_FORMAT_FLOAT_4X32)
		return false;
	*ret_format = formats[(view - 1) / 3];
	*ret_channels = 1u << (view - 1) % 3;
	return true;
}

static CUresult apply_view(const CUDA_RESOURCE_VIEW_DESC *view, unsigned flags, struct ptx_texture *texture)
{
	const struct ptx_image *base = &texture->levels[0];
	uint32_t height = texture->axes < 2 ? 0 : base->height, first = view->firstLayer, last = view->lastLayer;
	unsigned bytes = texture->texel_bytes, channels;
	CUarray_format format;

	if (view->format != CU_RES_VIEW_FORMAT_NONE) {
		if (view->format > CU_RES_VIEW_FORMAT_FLOAT_4X32 && view->format <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7)
			return CUDA_ERROR_NOT_SUPPORTED; // block compression is not simulated
		if (!find_view_format(view->format, &format, &channels))
			return CUDA_ERROR_INVALID_VALUE;
		SIM_TRY(set_format(texture, format, channels));
	}
	if (texture->texel_bytes != bytes || view->width != base->width || view->height != height ||
	    (texture->axes == 3 && view->depth != base->depth) || view->firstMipmapLevel > view->lastMipmapLevel ||
	    view->lastMipmapLevel >= texture->level_count || first > last)
		return CUDA_ERROR_INVALID_VALUE;
	if (texture->layers ? first >= base->depth : last != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (texture->layers && last >= base->depth) // a GPU's driver accepts this, too
		last = base->depth - 1;
	texture->level_count = view->lastMipmapLevel - view->firstMipmapLevel + 1;
	for (uint32_t i = 0; i < texture->level_count; i++) {
		struct ptx_image image = texture->levels[i + view->firstMipmapLevel];
		if (texture->layers) {
			image.address += image.tiles ? 0 : first * image.slice;
			image.first_slice = image.tiles ? first : 0;
			image.depth = last - first + 1;
		}
		texture->levels[i] = image;
	}
	if (texture->layers)
		texture->layers = (last - first + 1) / (flags & CUDA_ARRAY3D_CUBEMAP ? 6 : 1);
	return CUDA_SUCCESS;
}

static CUresult apply_reading(const CUDA_TEXTURE_DESC *reading, struct ptx_texture *texture)
{
	bool is_integer = texture->format <= PTX_TEXEL_S32, is_wide = texture->format >= PTX_TEXEL_U32;

	for (int i = 0; i < 3; i++) {
		if ((unsigned)reading->addressMode[i] > CU_TR_ADDRESS_MODE_BORDER)
			return CUDA_ERROR_INVALID_VALUE;
		texture->address[i] = (enum ptx_texture_address)reading->addressMode[i];
	}
	if ((unsigned)reading->filterMode > CU_TR_FILTER_MODE_LINEAR ||
	    (unsigned)reading->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR || reading->flags & ~FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	texture->is_float = !is_integer || (!is_wide && !(reading->flags & CU_TRSF_READ_AS_INTEGER));
	texture->is_normalized = reading->flags & CU_TRSF_NORMALIZED_COORDINATES;
	texture->is_srgb = reading->flags & CU_TRSF_SRGB && texture->format == PTX_TEXEL_U8;
	texture->is_seamless = reading->flags & CU_TRSF_SEAMLESS_CUBEMAP;
	texture->is_filtered = reading->filterMode == CU_TR_FILTER_MODE_LINEAR;
	texture->filters_levels = reading->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
	texture->level_bias = reading->mipmapLevelBias;
	texture->level_least = reading->minMipmapLevelClamp;
	texture->level_most = reading->maxMipmapLevelClamp;
	memcpy(texture->border.value, reading->borderColor, sizeof texture->border.value);
	return CUDA_SUCCESS;
}

static bool is_array(const CUDA_RESOURCE_DESC *resource)
{
	return resource->resType == CU_RESOURCE_TYPE_ARRAY || resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
}

CUresult sim_texture_read(const struct sim_texture_description *description, struct ptx_texture *ret_texture)
{
	const CUDA_RESOURCE_DESC *resource = &description->resource;
	struct ptx_texture texture = {.is_surface = description->is_surface};
	unsigned flags;

	if (description->is_surface && resource->resType != CU_RESOURCE_TYPE_ARRAY)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(read_resource(resource, &texture, &flags));
	if (description->needs_ldst && !(flags & CUDA_ARRAY3D_SURFACE_LDST))
		return CUDA_ERROR_INVALID_VALUE;
	if (!description->is_surface) {
		if (description->reading.flags & CU_TRSF_SEAMLESS_CUBEMAP && !(flags & CUDA_ARRAY3D_CUBEMAP))
			return CUDA_ERROR_INVALID_VALUE;
		if (description->has_view && is_array(resource)) // linear memory has no view
			SIM_TRY(apply_view(&description->view, flags, &texture));
		SIM_TRY(apply_reading(&description->reading, &texture));
	}
	*ret_texture = texture;
	return CUDA_SUCCESS;
}
