// Charges CUDA arrays. The driver chooses an array's size, and reports it only for arrays with deferred mapping. So,
// before an array is created, an array of the same shape with deferred mapping is created and queried. Small arrays
// share blocks of 2 MiB, but the driver does not report which arrays share a block. So each small array is charged a
// whole block.
#include <string.h>

#include "shim/contexts.h"
#include "shim/mapping.h"

static unsigned int measure_format(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	// All other formats need at most four bytes for a channel of an element. Block-compressed and planar formats
	// need fewer.
	default:
		return 4;
	}
}

// Returns how many bytes the elements of an array need, for shapes that cannot be created with deferred mapping.
// Returns 0 if the shape is invalid or too large: then the driver reports the error.
static uint64_t compute_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	uint64_t bytes = (uint64_t)measure_format(shape->Format) * (shape->NumChannels ? shape->NumChannels : 1);
	const uint64_t extents[] = {shape->Width, shape->Height, shape->Depth};

	for (int i = 0; i < 3; i++)
		if (extents[i] && __builtin_mul_overflow(bytes, extents[i], &bytes))
			return 0;
	// In a 2D array, each mipmap level needs a quarter of the level before it. So all further levels together need
	// a third of the first level.
	if (levels > 1 && __builtin_add_overflow(bytes, bytes / 3 + 1, &bytes))
		bytes = UINT64_MAX;
	bytes = shim_round_granularity(bytes);
	return shim_exceeds_device(bytes) ? 0 : bytes;
}

static bool needs_memory(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	return !(shape->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING));
}

static uint64_t measure_array(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	SHIM_RELAXED;
	CUDA_ARRAY3D_DESCRIPTOR deferred = *shape;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
	CUresult result;
	CUarray shadow;

	if (!needs_memory(shape))
		return 0;
	deferred.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
	if (REAL(cuArray3DCreate_v2)(&shadow, &deferred) != CUDA_SUCCESS)
		return compute_bytes(shape, 1);
	memset(&needs, 0, sizeof needs);
	result = REAL(cuArrayGetMemoryRequirements)(&needs, shadow, 0);
	REAL(cuArrayDestroy)(shadow);
	return result == CUDA_SUCCESS && needs.size ? shim_round_granularity(needs.size) : compute_bytes(shape, 1);
}

static uint64_t measure_mipmap(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	SHIM_RELAXED;
	CUDA_ARRAY3D_DESCRIPTOR deferred = *shape;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
	CUmipmappedArray shadow;
	CUresult result;

	if (!needs_memory(shape))
		return 0;
	deferred.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
	if (REAL(cuMipmappedArrayCreate)(&shadow, &deferred, levels) != CUDA_SUCCESS)
		return compute_bytes(shape, levels);
	memset(&needs, 0, sizeof needs);
	result = REAL(cuMipmappedArrayGetMemoryRequirements)(&needs, shadow, 0);
	REAL(cuMipmappedArrayDestroy)(shadow);
	return result == CUDA_SUCCESS && needs.size ? shim_round_granularity(needs.size) : compute_bytes(shape, levels);
}

static bool store_record(enum shim_record_type type, void *handle, uint64_t bytes)
{
	struct shim_record record = {.key = (uintptr_t)handle,
				     .bytes = bytes,
				     .context = shim_current_context(),
				     .type = (uint8_t)type,
				     .kind = VG_LEDGER_ARRAY};

	return shim_record_put(&record) == 0;
}

static CUresult finish_array(CUresult result, CUarray *array, uint64_t bytes)
{
	if (result == CUDA_SUCCESS && store_record(SHIM_ARRAY, *array, bytes))
		return CUDA_SUCCESS;
	if (result == CUDA_SUCCESS)
		REAL(cuArrayDestroy)(*array);
	shim_refund(VG_LEDGER_ARRAY, bytes);
	return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

// Defines a hook that creates an array. The last arguments of the macro are the members of the CUDA_ARRAY3D_DESCRIPTOR
// that describes the same array.
#define CREATE_ARRAY(abi, descriptor, ...)                                                                    \
	SHIM_EXPORT CUresult CUDAAPI abi(CUarray *array, const descriptor *shape)                             \
	{                                                                                                     \
		uint64_t bytes;                                                                               \
		CUresult result;                                                                              \
		if (!shim_enforcing() || !shape)                                                              \
			return REAL(abi)(array, shape);                                                       \
		const CUDA_ARRAY3D_DESCRIPTOR full = {__VA_ARGS__};                                           \
		bytes = measure_array(&full);                                                                 \
		result = shim_charge(VG_ENTRY_##abi, VG_LEDGER_ARRAY, bytes);                                 \
		return result != CUDA_SUCCESS ? result : finish_array(REAL(abi)(array, shape), array, bytes); \
	}
CREATE_ARRAY(cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR, shape->Width, shape->Height, shape->Depth, shape->Format,
	     shape->NumChannels, shape->Flags)
CREATE_ARRAY(cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, shape->Width, shape->Height, shape->Depth, shape->Format,
	     shape->NumChannels, shape->Flags)
CREATE_ARRAY(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR, shape->Width, shape->Height, 0, shape->Format, shape->NumChannels,
	     0)
CREATE_ARRAY(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, shape->Width, shape->Height, 0, shape->Format, shape->NumChannels,
	     0)

SHIM_EXPORT CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape,
						    unsigned int levels)
{
	uint64_t bytes;
	CUresult result;

	if (!shim_enforcing() || !shape)
		return REAL(cuMipmappedArrayCreate)(array, shape, levels);
	bytes = measure_mipmap(shape, levels);
	result = shim_charge(VG_ENTRY_cuMipmappedArrayCreate, VG_LEDGER_ARRAY, bytes);
	if (result != CUDA_SUCCESS)
		return result;
	result = REAL(cuMipmappedArrayCreate)(array, shape, levels);
	if (result == CUDA_SUCCESS && store_record(SHIM_MIPMAP, *array, bytes))
		return CUDA_SUCCESS;
	if (result == CUDA_SUCCESS)
		REAL(cuMipmappedArrayDestroy)(*array);
	shim_refund(VG_LEDGER_ARRAY, bytes);
	return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
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

#define DESTROY_ARRAY(abi, handle, record_type)                                                      \
	SHIM_EXPORT CUresult CUDAAPI abi(handle array)                                               \
	{                                                                                            \
		struct shim_record record;                                                           \
		if (!shim_counting() || !shim_record_remove(record_type, (uintptr_t)array, &record)) \
			return REAL(abi)(array);                                                     \
		return finish_destroy(REAL(abi)(array), &record);                                    \
	}
DESTROY_ARRAY(cuArrayDestroy, CUarray, SHIM_ARRAY)
DESTROY_ARRAY(cuMipmappedArrayDestroy, CUmipmappedArray, SHIM_MIPMAP)

// Adds a reference (a pin) to the physical memory that is mapped as tiles of a sparse array. So the memory stays
// allocated, and charged, until the array is destroyed, even if the tiles are unmapped earlier.
static void pin_tiles(const CUarrayMapInfo *list, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		bool mipmapped = list[i].resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
		uint64_t owner = mipmapped ? (uintptr_t)list[i].resource.mipmap : (uintptr_t)list[i].resource.array;
		if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
			shim_pin(list[i].memHandle.memHandle, owner, 0);
	}
}

#define MAP_ARRAY(abi)                                                                              \
	SHIM_EXPORT CUresult CUDAAPI abi(CUarrayMapInfo *list, unsigned int count, CUstream stream) \
	{                                                                                           \
		CUresult result = REAL(abi)(list, count, stream);                                   \
		if (result == CUDA_SUCCESS && shim_counting())                                      \
			pin_tiles(list, count);                                                     \
		return result;                                                                      \
	}
MAP_ARRAY(cuMemMapArrayAsync)
MAP_ARRAY(cuMemMapArrayAsync_ptsz)
