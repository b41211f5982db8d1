// Memory for arrays with deferred mapping: cuMemMapArrayAsync. Sparse arrays, whose tiles are mapped one by one, are
// not simulated: SPARSE_CUDA_ARRAY_SUPPORTED says 0.
#include "memory.h"
#include "texture.h"

// The levels of what is mapped, the first of which keeps the mapping.
static CUresult find_levels(const CUarrayMapInfo *info, unsigned *ret_count, struct sim_array *const **ret_levels,
			    struct sim_array **array)
{
	if (info->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
		SIM_TRY(sim_mipmap_levels(info->resource.mipmap, ret_count, ret_levels));
	} else if (info->resourceType == CU_RESOURCE_TYPE_ARRAY) {
		SIM_TRY(sim_array_get(info->resource.array, array));
		if ((*array)->mipmap)
			return CUDA_ERROR_INVALID_VALUE; // a level goes with its mipmapped array
		*ret_count = 1;
		*ret_levels = array;
	} else {
		return CUDA_ERROR_INVALID_VALUE;
	}
	return (*ret_levels)[0]->descriptor.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING ? CUDA_SUCCESS
										   : CUDA_ERROR_INVALID_VALUE;
}

static void place_levels(struct sim_array *const *levels, unsigned count, CUdeviceptr base)
{
	for (unsigned i = 0; i < count; i++) {
		levels[i]->base = base;
		base += base ? sim_round_up(levels[i]->size, SIM_LEVEL_ALIGNMENT) : 0;
	}
	sim_textures_refresh();
}

void sim_array_unmap(struct sim_array *const *levels, unsigned count)
{
	if (!levels[0]->mapping)
		return;
	sim_memory_lock();
	if (sim_range_find(levels[0]->base) == levels[0]->mapping) // else it went with its context
		sim_range_free(levels[0]->mapping);
	sim_memory_unlock();
	levels[0]->mapping = NULL;
	place_levels(levels, count, 0);
}

// With the memory lock.
static CUresult map_physical(struct sim_context *context, const CUarrayMapInfo *info, size_t size,
			     struct sim_range **ret_range)
{
	struct sim_physical *physical = sim_handle_find(info->memHandle.memHandle);
	struct sim_range *range;

	if (!physical)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!(physical->properties.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL) ||
	    physical->device != context->device || info->offset % SIM_LEVEL_ALIGNMENT ||
	    info->offset > physical->size || size > physical->size - info->offset)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_range_reserve(physical->size, SIM_GRANULE, 0, SIM_RANGE_RESERVED, &range));
	CUresult result = sim_range_map(range, range->base, physical);
	if (result != CUDA_SUCCESS) {
		sim_range_free(range);
		return result;
	}
	range->context = context->parent;
	range->device = context->device;
	sim_range_open(range, context);
	*ret_range = range;
	return CUDA_SUCCESS;
}

static CUresult change_mapping(struct sim_context *context, const CUarrayMapInfo *info)
{
	struct sim_array *array, *const *levels;
	struct sim_range *range;
	unsigned count;
	size_t size = 0;

	if (info->flags || info->reserved[0] || info->reserved[1] ||
	    info->deviceBitMask != 1u << context->device->ordinal)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(find_levels(info, &count, &levels, &array));
	if (info->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP) {
		if (info->memHandle.memHandle)
			return CUDA_ERROR_INVALID_VALUE;
		sim_array_unmap(levels, count);
		return CUDA_SUCCESS;
	}
	if (info->memOperationType != CU_MEM_OPERATION_TYPE_MAP || info->memHandleType != CU_MEM_HANDLE_TYPE_GENERIC)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++)
		size += sim_round_up(levels[i]->size, SIM_LEVEL_ALIGNMENT);
	sim_memory_lock();
	CUresult result = map_physical(context, info, size, &range);
	sim_memory_unlock();
	SIM_TRY(result);
	sim_array_unmap(levels, count);
	levels[0]->mapping = range;
	place_levels(levels, count, range->base + info->offset);
	return CUDA_SUCCESS;
}

// The stream's work is done first, and the call returns with the mapping in place: nobody can tell it from a later one.
static CUresult map_arrays(CUarrayMapInfo *list, unsigned count, CUstream handle)
{
	struct sim_stream *stream;

	SIM_TRY(sim_stream_get(handle, &stream));
	if (!list && count)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_capture_forbidden(stream));
	SIM_TRY(sim_stream_wait_idle(stream));
	for (unsigned i = 0; i < count; i++)
		SIM_TRY(change_mapping(stream->context, &list[i]));
	return CUDA_SUCCESS;
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
	SIM_ENTER(cuMemMapArrayAsync);
	return map_arrays(mapInfoList, count, hStream);
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
	SIM_ENTER(cuMemMapArrayAsync_ptsz);
	return map_arrays(mapInfoList, count, SIM_PTSZ(hStream));
}
