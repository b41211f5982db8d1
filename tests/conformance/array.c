// Tests CUDA arrays: their descriptors, the device memory that they take, their memory requirements, mipmaps and
// copies.
#include "conformance.h"

CONFORM(descriptors)
{
	CUarray array = NULL;
	CUDA_ARRAY_DESCRIPTOR wanted = {.Width = 100, .Height = 50, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
	CUDA_ARRAY_DESCRIPTOR found;
	CUDA_ARRAY3D_DESCRIPTOR full;

	need_context();
	WORKS(cuArrayCreate(&array, &wanted));
	WORKS(cuArrayGetDescriptor(&found, array));
	EQUALS(found.Width, 100);
	EQUALS(found.Height, 50);
	EQUALS(found.NumChannels, 4);
	EQUALS(found.Format, CU_AD_FORMAT_FLOAT);
	WORKS(cuArray3DGetDescriptor(&full, array));
	EQUALS(full.Depth, 0);
	EQUALS(full.Flags, 0);
	WORKS(cuArrayDestroy(array));
	wanted.NumChannels = 3;
	GIVES(cuArrayCreate(&array, &wanted), CUDA_ERROR_INVALID_VALUE);
	wanted.NumChannels = 1;
	wanted.Width = 0;
	GIVES(cuArrayCreate(&array, &wanted), CUDA_ERROR_INVALID_VALUE);
	wanted.Width = 1 << 24;
	GIVES(cuArrayCreate(&array, &wanted), CUDA_ERROR_INVALID_VALUE);
	wanted.Width = 100;
	wanted.Format = 0x77;
	GIVES(cuArrayCreate(&array, &wanted), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuArrayCreate(&array, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuArrayCreate(NULL, &wanted), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuArrayDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
}

CONFORM(cost)
{
	CUarray array = NULL, small = NULL;
	CUDA_ARRAY_DESCRIPTOR wanted = {.Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	size_t before;

	need_context();
	before = memory_used();
	WORKS(cuArrayCreate(&array, &wanted));
	EQUALS(memory_used() - before, 64 * MiB);
	wanted.Width = wanted.Height = 100;
	WORKS(cuArrayCreate(&small, &wanted));
	BETWEEN(memory_used() - before, 64 * MiB, 66 * MiB);
	WORKS(cuArrayDestroy(small));
	WORKS(cuArrayDestroy(array));
	EQUALS(memory_used(), before);
}

CONFORM(exhaustion)
{
	CUarray array = NULL;
	CUDA_ARRAY3D_DESCRIPTOR wanted = {
		.Width = 16384, .Height = 16384, .Depth = 512, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};

	need_context();
	GIVES(cuArray3DCreate(&array, &wanted), CUDA_ERROR_OUT_OF_MEMORY);
	WORKS(cuCtxSynchronize());
}

// Checks the memory requirements of a square mipmapped array with three levels: `size` bytes, aligned to 64 KiB.
static void needs_of_levels(size_t side, CUarray_format format, size_t size)
{
	CUmipmappedArray mipmap;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {0};
	CUDA_ARRAY3D_DESCRIPTOR wanted = {.Width = side,
					  .Height = side,
					  .Format = format,
					  .NumChannels = 1,
					  .Flags = CUDA_ARRAY3D_DEFERRED_MAPPING};

	NEED(cuMipmappedArrayCreate(&mipmap, &wanted, 3));
	WORKS(cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, device));
	EQUALS(needs.size, size);
	EQUALS(needs.alignment, 64 * KiB);
	WORKS(cuMipmappedArrayDestroy(mipmap));
}

CONFORM(memory_requirements)
{
	CUarray plain, deferred;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {0};
	CUDA_ARRAY3D_DESCRIPTOR wanted = {
		.Width = 4096, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	size_t before;

	need_context();
	NEED(cuArray3DCreate(&plain, &wanted));
	// the call needs an array that was created with CUDA_ARRAY3D_DEFERRED_MAPPING
	GIVES(cuArrayGetMemoryRequirements(&needs, plain, device), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuArrayDestroy(plain));
	before = memory_used();
	wanted.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
	NEED(cuArray3DCreate(&deferred, &wanted));
	EQUALS(memory_used(), before);
	WORKS(cuArrayGetMemoryRequirements(&needs, deferred, device));
	BETWEEN(needs.size, 64 * MiB, 66 * MiB);
	HOLDS(needs.alignment > 0 && (needs.alignment & (needs.alignment - 1)) == 0);
	WORKS(cuArrayDestroy(deferred));
	needs_of_levels(4096, CU_AD_FORMAT_FLOAT, 84 * MiB);
	needs_of_levels(64, CU_AD_FORMAT_FLOAT, 64 * KiB);
	needs_of_levels(1000, CU_AD_FORMAT_UNSIGNED_INT8, 1344 * KiB);
}

static CUarrayMapInfo mapping_of(CUarray array, CUmemOperationType operation, CUmemGenericAllocationHandle memory)
{
	return (CUarrayMapInfo){.resourceType = CU_RESOURCE_TYPE_ARRAY,
				.resource.array = array,
				.memOperationType = operation,
				.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
				.memHandle.memHandle = memory,
				.deviceBitMask = 1u << device};
}

// Two arrays are mapped to the same memory, one after the other.
CONFORM(deferred_mapping)
{
	enum { SIDE = 64 };
	CUarray arrays[2];
	CUmemGenericAllocationHandle memory, other;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
	CUDA_ARRAY3D_DESCRIPTOR wanted = {.Width = SIDE,
					  .Height = SIDE,
					  .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					  .NumChannels = 1,
					  .Flags = CUDA_ARRAY3D_DEFERRED_MAPPING};
	CUmemAllocationProp tiles = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				     .allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL};
	CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	unsigned char out[SIDE * SIDE], in[SIDE * SIDE] = {0};
	size_t granularity, before;

	need_context();
	before = memory_used();
	for (int i = 0; i < 2; i++)
		NEED(cuArray3DCreate(&arrays[i], &wanted));
	NEED(cuArrayGetMemoryRequirements(&needs, arrays[0], device));
	NEED(cuMemGetAllocationGranularity(&granularity, &tiles, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	size_t size = (needs.size + granularity - 1) / granularity * granularity;
	NEED(cuMemCreate(&memory, size, &tiles, 0));
	NEED(cuMemCreate(&other, size, &plain, 0));
	for (int i = 0; i < SIDE * SIDE; i++)
		out[i] = i % 251;
	CUDA_MEMCPY2D to = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			    .srcHost = out,
			    .srcPitch = SIDE,
			    .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			    .dstArray = arrays[0],
			    .WidthInBytes = SIDE,
			    .Height = SIDE};
	CUDA_MEMCPY2D from = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			      .srcArray = arrays[1],
			      .dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = in,
			      .dstPitch = SIDE,
			      .WidthInBytes = SIDE,
			      .Height = SIDE};
	CUarrayMapInfo map = mapping_of(arrays[0], CU_MEM_OPERATION_TYPE_MAP, other);
	GIVES(cuMemMapArrayAsync(&map, 1, NULL), CUDA_ERROR_INVALID_VALUE); // the memory is not of a tile pool
	map.memHandle.memHandle = memory;
	map.deviceBitMask = 0;
	GIVES(cuMemMapArrayAsync(&map, 1, NULL), CUDA_ERROR_INVALID_VALUE);
	map.deviceBitMask = 1u << device;
	map.flags = 1;
	GIVES(cuMemMapArrayAsync(&map, 1, NULL), CUDA_ERROR_INVALID_VALUE);
	map.flags = 0;
	NEED(cuMemMapArrayAsync(&map, 1, NULL));
	WORKS(cuMemcpy2D(&to));
	CUarrayMapInfo unmap = mapping_of(arrays[0], CU_MEM_OPERATION_TYPE_UNMAP, 0);
	WORKS(cuMemMapArrayAsync(&unmap, 1, NULL));
	map.resource.array = arrays[1];
	WORKS(cuMemMapArrayAsync(&map, 1, NULL));
	WORKS(cuMemcpy2D(&from));
	HOLDS(memcmp(in, out, sizeof in) == 0);
	unmap.resource.array = arrays[1];
	WORKS(cuMemMapArrayAsync(&unmap, 1, NULL));
	WORKS(cuStreamSynchronize(NULL));
	for (int i = 0; i < 2; i++)
		WORKS(cuArrayDestroy(arrays[i]));
	WORKS(cuMemRelease(memory));
	WORKS(cuMemRelease(other));
	EQUALS(memory_used(), before);
	wanted.Flags = 0;
	NEED(cuArray3DCreate(&arrays[0], &wanted));
	unmap.resource.array = arrays[0];
	GIVES(cuMemMapArrayAsync(&unmap, 1, NULL), CUDA_ERROR_INVALID_VALUE); // the array has its own memory
	WORKS(cuArrayDestroy(arrays[0]));
}

CONFORM(mipmaps)
{
	CUmipmappedArray array = NULL;
	CUarray level = NULL;
	CUDA_ARRAY_DESCRIPTOR found;
	CUDA_ARRAY3D_DESCRIPTOR wanted = {
		.Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
	size_t before;

	need_context();
	before = memory_used();
	WORKS(cuMipmappedArrayCreate(&array, &wanted, 11));
	BETWEEN(memory_used() - before, 20 * MiB, 32 * MiB); // mipmaps take 4/3 of the base level, and padding
	WORKS(cuMipmappedArrayGetLevel(&level, array, 3));
	WORKS(cuArrayGetDescriptor(&found, level));
	EQUALS(found.Width, 128);
	GIVES(cuMipmappedArrayGetLevel(&level, array, 11), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMipmappedArrayDestroy(array));
	EQUALS(memory_used(), before);
	GIVES(cuMipmappedArrayCreate(NULL, &wanted, 2), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(copies)
{
	CUarray array;
	CUDA_ARRAY_DESCRIPTOR wanted = {
		.Width = 16, .Height = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
	unsigned char out[64], in[64] = {0};

	need_context();
	NEED(cuArrayCreate(&array, &wanted));
	for (int i = 0; i < 64; i++)
		out[i] = i;
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .srcHost = out,
			      .srcPitch = 16,
			      .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			      .dstArray = array,
			      .WidthInBytes = 16,
			      .Height = 4};
	WORKS(cuMemcpy2D(&copy));
	CUDA_MEMCPY2D back = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
			      .srcArray = array,
			      .srcY = 1,
			      .dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = in,
			      .dstPitch = 16,
			      .WidthInBytes = 16,
			      .Height = 3};
	WORKS(cuMemcpy2D(&back));
	EQUALS(in[0], 16);
	EQUALS(in[47], 63);
	memset(in, 0, sizeof in);
	WORKS(cuMemcpyAtoH(in, array, 0, 16));
	HOLDS(memcmp(in, out, 16) == 0);
	WORKS(cuMemcpyHtoA(array, 0, out + 16, 16));
	GIVES(cuMemcpyAtoH(in, array, 8, 4096), CUDA_ERROR_INVALID_VALUE);
	back.Height = 4; // the copy would read rows beyond the end of the array
	GIVES(cuMemcpy2D(&back), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuArrayDestroy(array));
}
