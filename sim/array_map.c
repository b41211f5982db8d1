// Implements cuMemMapArrayAsync, which maps memory to arrays with deferred mapping and to tiles of sparse arrays
// (sparse.c).
#include "capture.h"
#include "entry.h"
#include "memory.h"
#include "process.h"
#include "sparse.h"
#include "stream.h"
#include "texture.h"

// Finds the levels of the array to map. The struct of the first level keeps the mapping for all of them.
static CUresult find_levels(const CUarrayMapInfo *info, unsigned *ret_count, struct sim_array *const **ret_levels,
			    struct sim_array **array)
{
	if (info->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
		if (sim_mipmap_levels(info->resource.mipmap, ret_count, ret_levels) != CUDA_SUCCESS)
			return CUDA_ERROR_INVALID_VALUE;
	} else if (info->resourceType == CU_RESOURCE_TYPE_ARRAY) {
		SIM_TRY(sim_array_get(info->resource.array, array));
		if ((*array)->mipmap)
			return CUDA_ERROR_INVALID_VALUE; // a single level cannot be mapped, only its mipmapped array
		*ret_count = 1;
		*ret_levels = array;
	} else {
		return CUDA_ERROR_INVALID_VALUE;
	}
	return (*ret_levels)[0]->descriptor.Flags & (CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_SPARSE)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

static void set_bases(struct sim_array *const *levels, unsigned count, CUdeviceptr base)
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
	// The context may have freed the mapping already. Then another range, or none, is at this address.
	if (sim_range_find(levels[0]->base) == levels[0]->mapping)
		sim_range_free(levels[0]->mapping);
	sim_memory_unlock();
	levels[0]->mapping = NULL;
	set_bases(levels, count, 0);
}

CUresult sim_array_check_memory(const struct sim_context *context, const struct sim_physical *physical,
				unsigned long long offset, size_t alignment, size_t size)
{
	if (!physical)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!(physical->properties.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL) ||
	    physical->device != context->device || offset % alignment || offset > physical->size ||
	    size > physical->size - offset)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult sim_array_map_physical(struct sim_context *context, struct sim_physical *physical,
				struct sim_range **ret_range)
{
	struct sim_range *range;

	SIM_TRY(sim_range_reserve(physical->size, SIM_GRANULE, 0, SIM_RANGE_DEVICE, &range));
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

// Maps memory to an array with deferred mapping. Call it with the memory lock held.
static CUresult map_deferred(struct sim_context *context, const CUarrayMapInfo *info, size_t size,
			     struct sim_range **ret_range)
{
	struct sim_physical *physical = sim_handle_find(info->memHandle.memHandle);

	SIM_TRY(sim_array_check_memory(context, physical, info->offset, SIM_LEVEL_ALIGNMENT, size));
	return sim_array_map_physical(context, physical, ret_range);
}

static CUresult check_info(const struct sim_context *context, const CUarrayMapInfo *info)
{
	if (info->flags || info->reserved[0] || info->reserved[1] ||
	    info->deviceBitMask != 1u << context->device->ordinal)
		return CUDA_ERROR_INVALID_VALUE;
	if (info->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP)
		return info->memHandle.memHandle ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	if (info->memOperationType != CU_MEM_OPERATION_TYPE_MAP || info->memHandleType != CU_MEM_HANDLE_TYPE_GENERIC)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

// Waits for the stream's work and maps at once. A program cannot tell this from a mapping in stream order.
static CUresult change_deferred(struct sim_stream *stream, const CUarrayMapInfo *info, struct sim_array *const *levels,
				unsigned count)
{
	struct sim_range *range;
	size_t size = 0;

	SIM_TRY(sim_stream_wait_idle(stream));
	if (info->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP) {
		sim_array_unmap(levels, count);
		return CUDA_SUCCESS;
	}
	for (unsigned i = 0; i < count; i++)
		size += sim_round_up(levels[i]->size, SIM_LEVEL_ALIGNMENT);
	sim_memory_lock();
	CUresult result = map_deferred(stream->context, info, size, &range);
	sim_memory_unlock();
	SIM_TRY(result);
	sim_array_unmap(levels, count);
	levels[0]->mapping = range;
	set_bases(levels, count, range->base + info->offset);
	return CUDA_SUCCESS;
}

static CUresult map_entry(struct sim_stream *stream, const CUarrayMapInfo *info)
{
	struct sim_array *array, *const *levels;
	struct sim_op *op;
	unsigned count;

	SIM_TRY(find_levels(info, &count, &levels, &array));
	SIM_TRY(check_info(stream->context, info));
	if (!levels[0]->sparse)
		return change_deferred(stream, info, levels, count);
	SIM_TRY(sim_sparse_map_op_new(stream->context, levels[0]->sparse, info, &op));
	return sim_submit(stream, op);
}

static CUresult map_arrays(CUarrayMapInfo *list, unsigned count, CUstream handle)
{
	struct sim_stream *stream;

	SIM_TRY(sim_stream_get(handle, &stream));
	if (!list && count)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_capture_check_stream(stream));
	for (unsigned i = 0; i < count; i++)
		SIM_TRY(map_entry(stream, &list[i]));
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
