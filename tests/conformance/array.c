// Arrays: descriptors, cost, memory requirements, mipmaps, copies.
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
	CUDA_ARRAY3D_DESCRIPTOR wanted = {.Width = 16384, .Height = 16384, .Depth = 512, .Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 4};

	need_context();
	GIVES(cuArray3DCreate(&array, &wanted), CUDA_ERROR_OUT_OF_MEMORY);
	WORKS(cuCtxSynchronize());
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
	GIVES(cuArrayGetMemoryRequirements(&needs, plain, device), CUDA_ERROR_INVALID_VALUE); // only for deferred ones
	WORKS(cuArrayDestroy(plain));
	before = memory_used();
	wanted.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
	NEED(cuArray3DCreate(&deferred, &wanted));
	EQUALS(memory_used(), before);
	WORKS(cuArrayGetMemoryRequirements(&needs, deferred, device));
	BETWEEN(needs.size, 64 * MiB, 66 * MiB);
	HOLDS(needs.alignment > 0 && (needs.alignment & (needs.alignment - 1)) == 0);
	WORKS(cuArrayDestroy(deferred));
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
	BETWEEN(memory_used() - before, 20 * MiB, 32 * MiB); // 4/3 of the base level, and padding
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
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = out, .srcPitch = 16,
		.dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = array, .WidthInBytes = 16, .Height = 4};
	WORKS(cuMemcpy2D(&copy));
	CUDA_MEMCPY2D back = {.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = array, .srcY = 1,
		.dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = in, .dstPitch = 16, .WidthInBytes = 16, .Height = 3};
	WORKS(cuMemcpy2D(&back));
	EQUALS(in[0], 16);
	EQUALS(in[47], 63);
	memset(in, 0, sizeof in);
	WORKS(cuMemcpyAtoH(in, array, 0, 16));
	HOLDS(memcmp(in, out, 16) == 0);
	WORKS(cuMemcpyHtoA(array, 0, out + 16, 16));
	GIVES(cuMemcpyAtoH(in, array, 8, 4096), CUDA_ERROR_INVALID_VALUE);
	back.Height = 4; // past the last row
	GIVES(cuMemcpy2D(&back), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuArrayDestroy(array));
}
