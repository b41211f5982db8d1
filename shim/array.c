// CUDA arrays: their size is the driver's to choose and it tells it only for arrays whose
// mapping is deferred, so an array of the same shape is made that way and asked. Small arrays
// share blocks of 2 MiB, but which ones cannot be told: each is charged one.
#include <string.h>

#include "shim/charge.h"
#include "shim/vmm.h"

static unsigned int format_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	default: // block-compressed and planar formats take less than this
		return 4;
	}
}

// What the elements alone take, for shapes that cannot be deferred.
static uint64_t computed(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	uint64_t bytes = (uint64_t)format_bytes(shape->Format) * (shape->NumChannels ? shape->NumChannels : 1);
	const uint64_t extents[] = {shape->Width, shape->Height, shape->Depth};

	for (int i = 0; i < 3; i++)
		if (extents[i] && __builtin_mul_overflow(bytes, extents[i], &bytes))
			return 0;
	if (levels > 1 && __builtin_add_overflow(bytes, bytes / 3 + 1, &bytes)) // a quarter each: a third in all
		bytes = UINT64_MAX;
	bytes = shim_round_granularity(bytes);
	return shim_exceeds_device(bytes) ? 0 : bytes; // the driver will say what is wrong with it
}

static bool takes_memory(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	return !(shape->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING));
}

static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	SHIM_RELAXED;
	CUDA_ARRAY3D_DESCRIPTOR deferred = *shape;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
	CUresult result;
	CUarray shadow;

	if (!takes_memory(shape))
		return 0;
	deferred.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
	if (REAL(cuArray3DCreate_v2)(&shadow, &deferred) != CUDA_SUCCESS)
		return computed(shape, 1);
	memset(&needs, 0, sizeof needs);
	result = REAL(cuArrayGetMemoryRequirements)(&needs, shadow, 0);
	REAL(cuArrayDestroy)(shadow);
	return result == CUDA_SUCCESS && needs.size ? shim_round_granularity(needs.size) : computed(shape, 1);
}

static uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	SHIM_RELAXED;
	CUDA_ARRAY3D_DESCRIPTOR deferred = *shape;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
	CUmipmappedArray shadow;
	CUresult result;

	if (!takes_memory(shape))
		return 0;
	deferred.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
	if (REAL(cuMipmappedArrayCreate)(&shadow, &deferred, levels) != CUDA_SUCCESS)
		return computed(shape, levels);
	memset(&needs, 0, sizeof needs);
	result = REAL(cuMipmappedArrayGetMemoryRequirements)(&needs, shadow, 0);
	REAL(cuMipmappedArrayDestroy)(shadow);
	return result == CUDA_SUCCESS && needs.size ? shim_round_granularity(needs.size) : computed(shape, levels);
}

static CUresult keep(enum shim_what what, uint64_t handle, uint64_t bytes)
{
	struct shim_record record = {
		.key = handle, .bytes = bytes, .context = shim_current_context(), .what = (uint8_t)what,
		.kind = VG_LEDGER_ARRAY};

	return shim_record_put(&record) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult finish_array(CUresult result, CUarray *array, uint64_t bytes)
{
	if (result == CUDA_SUCCESS) {
		result = keep(SHIM_ARRAY, (uintptr_t)*array, bytes);
		if (result == CUDA_SUCCESS)
			return result;
		REAL(cuArrayDestroy)(*array);
	}
	shim_refund(VG_LEDGER_ARRAY, bytes);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	uint64_t bytes;
	CUresult result;

	if (!shim_enforcing() || !shape)
		return REAL(cuArray3DCreate_v2)(array, shape);
	bytes = array_bytes(shape);
	result = shim_charge(VG_ENTRY_cuArray3DCreate_v2, VG_LEDGER_ARRAY, bytes);
	if (result != CUDA_SUCCESS)
		return result;
	return finish_array(REAL(cuArray3DCreate_v2)(array, shape), array, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR wide;
	uint64_t bytes;
	CUresult result;

	if (!shim_enforcing() || !shape)
		return REAL(cuArray3DCreate)(array, shape);
	wide = (CUDA_ARRAY3D_DESCRIPTOR){shape->Width, shape->Height, shape->Depth, shape->Format, shape->NumChannels,
					 shape->Flags};
	bytes = array_bytes(&wide);
	result = shim_charge(VG_ENTRY_cuArray3DCreate, VG_LEDGER_ARRAY, bytes);
	if (result != CUDA_SUCCESS)
		return result;
	return finish_array(REAL(cuArray3DCreate)(array, shape), array, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR wide;
	uint64_t bytes;
	CUresult result;

	if (!shim_enforcing() || !shape)
		return REAL(cuArrayCreate_v2)(array, shape);
	wide = (CUDA_ARRAY3D_DESCRIPTOR){shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0};
	bytes = array_bytes(&wide);
	result = shim_charge(VG_ENTRY_cuArrayCreate_v2, VG_LEDGER_ARRAY, bytes);
	if (result != CUDA_SUCCESS)
		return result;
	return finish_array(REAL(cuArrayCreate_v2)(array, shape), array, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR wide;
	uint64_t bytes;
	CUresult result;

	if (!shim_enforcing() || !shape)
		return REAL(cuArrayCreate)(array, shape);
	wide = (CUDA_ARRAY3D_DESCRIPTOR){shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0};
	bytes = array_bytes(&wide);
	result = shim_charge(VG_ENTRY_cuArrayCreate, VG_LEDGER_ARRAY, bytes);
	if (result != CUDA_SUCCESS)
		return result;
	return finish_array(REAL(cuArrayCreate)(array, shape), array, bytes);
}

SHIM_EXPORT CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape,
						    unsigned int levels)
{
	uint64_t bytes;
	CUresult result;

	if (!shim_enforcing() || !shape)
		return REAL(cuMipmappedArrayCreate)(array, shape, levels);
	bytes = mipmap_bytes(shape, levels);
	result = shim_charge(VG_ENTRY_cuMipmappedArrayCreate, VG_LEDGER_ARRAY, bytes);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMipmappedArrayCreate)(array, shape, levels);
	if (result == CUDA_SUCCESS) {
		result = keep(SHIM_MIPMAP, (uintptr_t)*array, bytes);
		if (result == CUDA_SUCCESS)
			return result;
		REAL(cuMipmappedArrayDestroy)(*array);
	}
	shim_refund(VG_LEDGER_ARRAY, bytes);
	return result;
}

static CUresult finish_destroy(CUresult result, const struct shim_record *record)
{
	if (result != CUDA_SUCCESS) {
		shim_record_put(record);
		return result;
	}
	shim_refund_record(record);
	shim_unpin_all(record->key);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuArrayDestroy(CUarray array)
{
	struct shim_record record;

	if (!shim_counting() || !shim_record_take(SHIM_ARRAY, (uintptr_t)array, &record))
		return REAL(cuArrayDestroy)(array);
	return finish_destroy(REAL(cuArrayDestroy)(array), &record);
}

SHIM_EXPORT CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	struct shim_record record;

	if (!shim_counting() || !shim_record_take(SHIM_MIPMAP, (uintptr_t)array, &record))
		return REAL(cuMipmappedArrayDestroy)(array);
	return finish_destroy(REAL(cuMipmappedArrayDestroy)(array), &record);
}

// A sparse array keeps the physical memory of its tiles alive. Which tiles are still mapped
// is not followed: what was ever mapped into an array stays charged until the array goes.
static void pin_tiles(const CUarrayMapInfo *list, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		bool mipmapped = list[i].resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
		uint64_t owner = mipmapped ? (uintptr_t)list[i].resource.mipmap : (uintptr_t)list[i].resource.array;
		if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
			shim_pin(list[i].memHandle.memHandle, owner, 0);
	}
}

SHIM_EXPORT CUresult CUDAAPI cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	CUresult result = REAL(cuMemMapArrayAsync)(list, count, stream);

	if (result == CUDA_SUCCESS && shim_counting())
		pin_tiles(list, count);
	return result;
}

SHIM_EXPORT CUresult CUDAAPI cuMemMapArrayAsync_ptsz(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	CUresult result = REAL(cuMemMapArrayAsync_ptsz)(list, count, stream);

	if (result == CUDA_SUCCESS && shim_counting())
		pin_tiles(list, count);
	return result;
}
