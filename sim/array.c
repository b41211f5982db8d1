// Creates and describes arrays and mipmapped arrays: device memory in rows, described by a CUDA_ARRAY3D_DESCRIPTOR.
#include <stdlib.h>

#include "capture.h"
#include "context.h"
#include "entry.h"
#include "memory.h"
#include "process.h"
#include "ptx/texture.h"
#include "sparse.h"

enum { MIPMAP_MAGIC = 0x4d49502b, LEVELS_MOST = 20 };

struct sim_mipmap {
	uint32_t magic;
	struct sim_context *context;
	CUdeviceptr base; // address of the memory; 0: no memory yet, since the mapping is deferred
	size_t size;
	unsigned count;
	struct sim_array *levels[LEVELS_MOST];
	struct sim_mipmap *next_free;
};

static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
// Lists of freed structs, which are reused only for arrays. So a stale handle never points to other data. The magic
// number of a freed struct is 0, so its handle is recognised as invalid.
static struct sim_array *free_arrays;
static struct sim_mipmap *free_mipmaps;

static struct sim_array *get_free_array(void)
{
	pthread_mutex_lock(&free_lock);
	struct sim_array *array = free_arrays;
	if (array)
		free_arrays = array->next_free;
	pthread_mutex_unlock(&free_lock);
	return array ? array : calloc(1, sizeof *array);
}

static void free_array(struct sim_array *array)
{
	array->magic = 0;
	pthread_mutex_lock(&free_lock);
	array->next_free = free_arrays;
	free_arrays = array;
	pthread_mutex_unlock(&free_lock);
}

CUresult sim_array_get(CUarray handle, struct sim_array **ret_array)
{
	struct sim_array *array = (struct sim_array *)handle;

	if ((uintptr_t)handle < 4096 || (uintptr_t)handle % sizeof(void *) || array->magic != SIM_ARRAY_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_array = array;
	return CUDA_SUCCESS;
}

// Returns the bytes of one channel; 0: the format is not supported.
static size_t get_channel_bytes(CUarray_format format)
{
	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

// Rounds an extent up to whole blocks. The length of a block is `unit`, doubled until it is at least the extent, but at
// most `unit * most`.
static size_t round_to_block(size_t extent, size_t unit, size_t most)
{
	size_t units = 1;

	while (units < most && units * unit < extent)
		units *= 2;
	return sim_round_up(extent, units * unit);
}

uint64_t sim_array_block_bytes(const struct sim_array *array, bool is_volume)
{
	uint64_t plane = sim_round_up(array->width * array->element, 64) * round_to_block(array->height, 8, 16);

	return plane * (is_volume ? round_to_block(array->depth, 1, 32) : 1);
}

bool sim_array_is_volume(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
	return descriptor->Depth && !(descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP));
}

// Returns the size and the alignment of the memory that an array with deferred mapping needs.
static CUDA_ARRAY_MEMORY_REQUIREMENTS find_requirements(struct sim_array *const *levels, unsigned count)
{
	bool is_volume = sim_array_is_volume(&levels[0]->descriptor);
	uint64_t size = 0;

	for (unsigned i = 0; i < count; i++)
		size += sim_array_block_bytes(levels[i], is_volume) * (is_volume ? 1 : levels[i]->depth);
	return (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = sim_round_up(size, PTX_TILE_BYTES),
						.alignment = PTX_TILE_BYTES};
}

static CUresult check_descriptor(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	const unsigned known = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
			       CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_COLOR_ATTACHMENT |
			       CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_SPARSE;
	bool layered = d->Flags & CUDA_ARRAY3D_LAYERED, cube = d->Flags & CUDA_ARRAY3D_CUBEMAP;

	if (!get_channel_bytes(d->Format) || (d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4) ||
	    d->Width == 0 || (d->Flags & ~known))
		return CUDA_ERROR_INVALID_VALUE;
	if (d->Flags & CUDA_ARRAY3D_SPARSE)
		SIM_TRY(sim_sparse_check(d));
	if (cube && (d->Width != d->Height || d->Depth % 6 || d->Depth == 0 || (!layered && d->Depth != 6)))
		return CUDA_ERROR_INVALID_VALUE;
	if (layered && !cube && (d->Depth == 0 || d->Depth > 2048))
		return CUDA_ERROR_INVALID_VALUE;
	if (!layered && !cube && d->Depth &&
	    (d->Height == 0 || d->Depth > 16384 || d->Width > 16384 || d->Height > 16384))
		return CUDA_ERROR_INVALID_VALUE;
	return d->Width <= 131072 && d->Height <= 65536 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Creates an array without memory. The caller sets its base.
static CUresult new_array(struct sim_context *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
			  struct sim_array **ret_array)
{
	struct sim_array *array = get_free_array();

	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*array = (struct sim_array){.context = context, .descriptor = *descriptor};
	array->element = get_channel_bytes(descriptor->Format) * descriptor->NumChannels;
	array->width = descriptor->Width;
	array->height = descriptor->Height ? descriptor->Height : 1;
	array->depth = descriptor->Depth ? descriptor->Depth : 1;
	array->pitch = sim_round_up(array->width * array->element, 64);
	array->slice = array->pitch * array->height;
	array->size = array->slice * array->depth;
	array->magic = SIM_ARRAY_MAGIC;
	*ret_array = array;
	return CUDA_SUCCESS;
}

static CUresult create_array(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
	struct sim_context *context;
	struct sim_array *array;
	CUresult result = CUDA_SUCCESS;

	SIM_TRY(sim_context_current(&context));
	if (!handle || !descriptor)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_descriptor(descriptor));
	SIM_TRY(sim_capture_check_unsafe());
	SIM_TRY(new_array(context, descriptor, &array));
	if (descriptor->Flags & CUDA_ARRAY3D_SPARSE)
		result = sim_sparse_create(&array, 1);
	else if (!(descriptor->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
		result = sim_memory_alloc(context, array->size, SIM_RANGE_DEVICE, &array->base);
	if (result != CUDA_SUCCESS) {
		free_array(array);
		return result;
	}
	*handle = (CUarray)array;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *d)
{
	SIM_ENTER(cuArrayCreate_v2);
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_ARRAY3D_DESCRIPTOR full = {
		.Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
	return create_array(pHandle, &full);
}

CUresult CUDAAPI cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	SIM_ENTER(cuArray3DCreate_v2);
	return create_array(pHandle, pAllocateArray);
}

CUresult CUDAAPI cuArrayDestroy(CUarray hArray)
{
	struct sim_array *array;

	SIM_ENTER(cuArrayDestroy);
	SIM_TRY(sim_array_get(hArray, &array));
	if (array->mipmap)
		return CUDA_ERROR_INVALID_HANDLE; // a level cannot be destroyed alone, only with its mipmapped array
	SIM_TRY(sim_capture_check_unsafe());
	(void)sim_context_synchronize(array->context);
	sim_sparse_destroy(&array, 1);
	sim_array_unmap(&array, 1);
	if (array->base)
		(void)sim_memory_free(array->base);
	free_array(array);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	struct sim_array *array;

	SIM_ENTER(cuArray3DGetDescriptor_v2);
	SIM_TRY(sim_array_get(hArray, &array));
	if (!pArrayDescriptor)
		return CUDA_ERROR_INVALID_VALUE;
	*pArrayDescriptor = array->descriptor;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	struct sim_array *array;

	SIM_ENTER(cuArrayGetDescriptor_v2);
	SIM_TRY(sim_array_get(hArray, &array));
	if (!pArrayDescriptor)
		return CUDA_ERROR_INVALID_VALUE;
	const CUDA_ARRAY3D_DESCRIPTOR *d = &array->descriptor;
	*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){
		.Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUarray array_,
					      CUdevice dev)
{
	struct sim_array *array;
	struct sim_device *device;

	SIM_ENTER(cuArrayGetMemoryRequirements);
	SIM_TRY(sim_array_get(array_, &array));
	SIM_TRY(sim_device_get(dev, &device));
	if (!memoryRequirements || !(array->descriptor.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
		return CUDA_ERROR_INVALID_VALUE;
	*memoryRequirements = find_requirements(&array, 1);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx)
{
	struct sim_array *array;

	SIM_ENTER(cuArrayGetPlane);
	SIM_TRY(sim_array_get(hArray, &array));
	return CUDA_ERROR_INVALID_VALUE; // an array has no planes, because no supported format has any
}

CUresult CUDAAPI cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUarray hArray)
{
	struct sim_array *array;

	SIM_ENTER(cuArrayGetSparseProperties);
	if (!sparseProperties || sim_array_get(hArray, &array) != CUDA_SUCCESS || !array->sparse || array->mipmap)
		return CUDA_ERROR_INVALID_VALUE;
	sim_sparse_properties(array->sparse, sparseProperties);
	sparseProperties->miptailFirstLevel = 0; // this array has one level only
	return CUDA_SUCCESS;
}

// ---- mipmaps -----------------------------------------------------------------------------------

static CUresult get_mipmap(CUmipmappedArray handle, struct sim_mipmap **ret_mipmap)
{
	struct sim_mipmap *mipmap = (struct sim_mipmap *)handle;

	if ((uintptr_t)handle < 4096 || (uintptr_t)handle % sizeof(void *) || mipmap->magic != MIPMAP_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret_mipmap = mipmap;
	return CUDA_SUCCESS;
}

CUresult sim_mipmap_levels(CUmipmappedArray handle, unsigned *ret_count, struct sim_array *const **ret_levels)
{
	struct sim_mipmap *mipmap;

	SIM_TRY(get_mipmap(handle, &mipmap));
	*ret_count = mipmap->count;
	*ret_levels = mipmap->levels;
	return CUDA_SUCCESS;
}

static void free_mipmap(struct sim_mipmap *mipmap)
{
	for (unsigned i = 0; i < mipmap->count; i++)
		free_array(mipmap->levels[i]);
	mipmap->count = 0;
	mipmap->magic = 0;
	pthread_mutex_lock(&free_lock);
	mipmap->next_free = free_mipmaps;
	free_mipmaps = mipmap;
	pthread_mutex_unlock(&free_lock);
}

// Returns the extent at a level of a mipmap. An extent of 0 stays 0, and all others end at 1.
static size_t halve(size_t extent, unsigned level)
{
	size_t small = extent >> level;
	return extent && !small ? 1 : small;
}

// Returns the number of levels down to a single texel.
static unsigned count_levels(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, bool is_volume)
{
	size_t largest = descriptor->Width > descriptor->Height ? descriptor->Width : descriptor->Height;
	unsigned count = 1;

	if (is_volume && descriptor->Depth > largest)
		largest = descriptor->Depth;
	while (largest >> count)
		count++;
	return count;
}

static CUresult add_levels(struct sim_mipmap *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned wanted)
{
	bool is_volume = !(descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP));
	unsigned most = count_levels(descriptor, is_volume);

	for (unsigned i = 0; i < (wanted < most ? wanted : most); i++) {
		CUDA_ARRAY3D_DESCRIPTOR level = *descriptor;
		level.Width = halve(level.Width, i);
		level.Height = halve(level.Height, i);
		level.Depth = is_volume ? halve(level.Depth, i) : level.Depth;
		SIM_TRY(new_array(mipmap->context, &level, &mipmap->levels[i]));
		mipmap->count++;
		mipmap->levels[i]->mipmap = mipmap;
		mipmap->size += sim_round_up(mipmap->levels[i]->size, SIM_LEVEL_ALIGNMENT);
	}
	return CUDA_SUCCESS;
}

static CUresult fill_mipmap(struct sim_mipmap *mipmap, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned wanted)
{
	size_t offset = 0;

	SIM_TRY(add_levels(mipmap, descriptor, wanted));
	if (descriptor->Flags & CUDA_ARRAY3D_SPARSE)
		return sim_sparse_create(mipmap->levels, mipmap->count);
	if (descriptor->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING)
		return CUDA_SUCCESS;
	SIM_TRY(sim_memory_alloc(mipmap->context, mipmap->size, SIM_RANGE_DEVICE, &mipmap->base));
	for (unsigned i = 0; i < mipmap->count; i++) {
		mipmap->levels[i]->base = mipmap->base + offset;
		offset += sim_round_up(mipmap->levels[i]->size, SIM_LEVEL_ALIGNMENT);
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
					unsigned int numMipmapLevels)
{
	struct sim_context *context;

	SIM_ENTER(cuMipmappedArrayCreate);
	SIM_TRY(sim_context_current(&context));
	if (!pHandle || !pMipmappedArrayDesc || numMipmapLevels == 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_descriptor(pMipmappedArrayDesc));
	SIM_TRY(sim_capture_check_unsafe());
	struct sim_mipmap *mipmap = calloc(1, sizeof *mipmap);
	if (!mipmap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mipmap->context = context;
	CUresult result = fill_mipmap(mipmap, pMipmappedArrayDesc, numMipmapLevels);
	if (result != CUDA_SUCCESS) {
		free_mipmap(mipmap);
		return result;
	}
	mipmap->magic = MIPMAP_MAGIC;
	*pHandle = (CUmipmappedArray)mipmap;
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level)
{
	struct sim_mipmap *mipmap;

	SIM_ENTER(cuMipmappedArrayGetLevel);
	SIM_TRY(get_mipmap(hMipmappedArray, &mipmap));
	if (!pLevelArray || level >= mipmap->count)
		return CUDA_ERROR_INVALID_VALUE;
	*pLevelArray = (CUarray)mipmap->levels[level];
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct sim_mipmap *mipmap;

	SIM_ENTER(cuMipmappedArrayDestroy);
	SIM_TRY(get_mipmap(hMipmappedArray, &mipmap));
	SIM_TRY(sim_capture_check_unsafe());
	(void)sim_context_synchronize(mipmap->context);
	sim_sparse_destroy(mipmap->levels, mipmap->count);
	sim_array_unmap(mipmap->levels, mipmap->count);
	if (mipmap->base)
		(void)sim_memory_free(mipmap->base);
	free_mipmap(mipmap);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
						       CUmipmappedArray mipmap_, CUdevice dev)
{
	struct sim_mipmap *mipmap;
	struct sim_device *device;

	SIM_ENTER(cuMipmappedArrayGetMemoryRequirements);
	SIM_TRY(get_mipmap(mipmap_, &mipmap));
	SIM_TRY(sim_device_get(dev, &device));
	if (!memoryRequirements || !(mipmap->levels[0]->descriptor.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
		return CUDA_ERROR_INVALID_VALUE;
	*memoryRequirements = find_requirements(mipmap->levels, mipmap->count);
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
						     CUmipmappedArray mipmap_)
{
	struct sim_mipmap *mipmap;

	SIM_ENTER(cuMipmappedArrayGetSparseProperties);
	if (!sparseProperties || get_mipmap(mipmap_, &mipmap) != CUDA_SUCCESS || !mipmap->levels[0]->sparse)
		return CUDA_ERROR_INVALID_VALUE;
	sim_sparse_properties(mipmap->levels[0]->sparse, sparseProperties);
	return CUDA_SUCCESS;
}
