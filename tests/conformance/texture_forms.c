// Tests textures: mipmaps, gathers, forms of results, queries, views of resources, and invalid descriptions.
#include "texture.h"

static CUmipmappedArray make_levels(int size, int levels)
{
	CUmipmappedArray mipmap = NULL;
	CUDA_ARRAY3D_DESCRIPTOR wanted = {
		.Width = size, .Height = size, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};

	NEED(cuMipmappedArrayCreate(&mipmap, &wanted, levels));
	for (int level = 0; level < levels; level++) { // each texel has the number of its level as the value
		CUarray array;
		float texels[64 * 64];
		int wide = size >> level;
		for (int i = 0; i < wide * wide; i++)
			texels[i] = (float)level;
		NEED(cuMipmappedArrayGetLevel(&array, mipmap, level));
		fill_array(array, texels, wide * 4, wide, 1);
	}
	return mipmap;
}

static float level_of(CUmodule module, CUtexObject object, float level)
{
	return probe_once(module, "level_2d", object, (struct probe){{{0.4f}, {0.6f}, {0}, {0}, {level}}}).at[0].f;
}

static CUtexObject make_mipmap_object(CUmipmappedArray mipmap, const CUDA_TEXTURE_DESC *how)
{
	CUtexObject object = 0;
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
				       .res.mipmap.hMipmappedArray = mipmap};

	NEED(cuTexObjectCreate(&object, &resource, how, NULL));
	return object;
}

CONFORM(levels)
{
	CUmodule module = need_reads();
	CUmipmappedArray mipmap = (need_context(), make_levels(32, 6));
	CUDA_TEXTURE_DESC how =
		reading(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR, CU_TRSF_NORMALIZED_COORDINATES);

	how.maxMipmapLevelClamp = 5;
	CUtexObject object = make_mipmap_object(mipmap, &how);
	NEAR(level_of(module, object, 0), 0, 0);
	NEAR(level_of(module, object, 2), 2, 0);
	NEAR(level_of(module, object, 2.3f), 2, 0);
	NEAR(level_of(module, object, 2.7f), 3, 0);
	NEAR(level_of(module, object, 9), 5, 0);
	NEAR(level_of(module, object, -3), 0, 0);
	// From pixel to pixel the coordinate changes by 4 texels, so the driver reads level 2.
	struct probe gradient = {{{0.4f}, {0.6f}, {0}, {0}, {4 / 32.f}, {0}, {0}, {0}, {0}, {4 / 32.f}}};
	NEAR(probe_once(module, "gradient_2d", object, gradient).at[0].f, 2, 0);
	struct value sizes = probe_once(module, "query", object, (struct probe){0});
	EQUALS(sizes.at[0].i, 32);
	EQUALS(sizes.at[1].i, 32);
	EQUALS(sizes.at[3].i, 16);
	WORKS(cuTexObjectDestroy(object));
	how.mipmapFilterMode = CU_TR_FILTER_MODE_LINEAR;
	object = make_mipmap_object(mipmap, &how);
	NEAR(level_of(module, object, 2.25f), 2.25, 1 / 256.);
	NEAR(level_of(module, object, 3.9f), 3.9, 1 / 256.);
	WORKS(cuTexObjectDestroy(object));
	how.mipmapLevelBias = 1;
	how.minMipmapLevelClamp = 1.5f;
	how.maxMipmapLevelClamp = 3.5f;
	object = make_mipmap_object(mipmap, &how);
	NEAR(level_of(module, object, 1.25f), 2.25, 1 / 256.);
	NEAR(level_of(module, object, 0), 1.5, 1 / 256.);
	NEAR(level_of(module, object, 5), 3.5, 1 / 256.);
	WORKS(cuTexObjectDestroy(object));
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
				       .res.mipmap.hMipmappedArray = mipmap};
	how.flags = 0; // not normalized
	WORKS(cuTexObjectCreate(&object, &resource, &how, NULL));
	WORKS(cuTexObjectDestroy(object));
	WORKS(cuMipmappedArrayDestroy(mipmap));
}

// Maps other memory to the array of a texture. The texture must then read that memory.
CONFORM(deferred_mapping)
{
	CUmodule module = need_reads();
	CUDA_TEXTURE_DESC how = reading(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT, 0);
	CUarray array = make_array(8, 8, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_DEFERRED_MAPPING);
	CUmemAllocationProp tiles = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				     .allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL};
	CUarrayMapInfo map = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
			      .resource.array = array,
			      .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
			      .deviceBitMask = 1u << device};
	CUmemGenericAllocationHandle memory[2];
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
	CUtexObject object = 0;
	size_t granularity;
	float texels[64];

	NEED(cuArrayGetMemoryRequirements(&needs, array, device));
	NEED(cuMemGetAllocationGranularity(&granularity, &tiles, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	size_t size = (needs.size + granularity - 1) / granularity * granularity;
	for (int i = 0; i < 2; i++) {
		NEED(cuMemCreate(&memory[i], size, &tiles, 0));
		map.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
		map.memHandle.memHandle = memory[i];
		NEED(cuMemMapArrayAsync(&map, 1, NULL));
		for (int k = 0; k < 64; k++)
			texels[k] = 100 * i + k;
		fill_array(array, texels, 32, 8, 1);
		if (!object)
			object = make_object(array, &how);
		NEAR(probe_once(module, "read_2d", object, (struct probe){{{3.5f}, {2.5f}}}).at[0].f, 100 * i + 19, 0);
		map.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
		map.memHandle.memHandle = 0;
		NEED(cuMemMapArrayAsync(&map, 1, NULL));
	}
	WORKS(cuStreamSynchronize(NULL));
	WORKS(cuTexObjectDestroy(object));
	WORKS(cuArrayDestroy(array));
	for (int i = 0; i < 2; i++)
		WORKS(cuMemRelease(memory[i]));
}

CONFORM(gather)
{
	CUmodule module = need_reads();
	CUDA_TEXTURE_DESC how = reading(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT, 0);
	struct picture picture = make_picture(8, 8, 1);
	CUarray array = make_array(8, 8, 0, CU_AD_FORMAT_FLOAT, 4, CUDA_ARRAY3D_TEXTURE_GATHER);

	fill_array(array, picture.texels, 8 * 16, 8, 1);
	CUtexObject object = make_object(array, &how);
	struct probe probe = {{{3.0f}, {5.0f}}}; // coordinates between texels 2 and 3, and between rows 4 and 5
	const int order[4][2] = {{2, 5}, {3, 5}, {3, 4}, {2, 4}};
	struct value red = probe_once(module, "gather_r", object, probe);
	struct value blue = probe_once(module, "gather_b", object, probe);
	for (int i = 0; i < 4; i++) {
		NEAR(red.at[i].f, picture.texels[(order[i][1] * 8 + order[i][0]) * 4], 0);
		NEAR(blue.at[i].f, picture.texels[(order[i][1] * 8 + order[i][0]) * 4 + 2], 0);
	}
	WORKS(cuTexObjectDestroy(object));
	WORKS(cuArrayDestroy(array));
	free(picture.texels);
}

CONFORM(forms_of_results)
{
	CUmodule module = need_reads();
	CUDA_TEXTURE_DESC how = reading(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT, 0);
	const float texels[4][4] = {{0}, {1, -2, 0.5f, 65504}, {0}, {7, 8, 9, 10}};
	CUarray array = make_array(4, 1, 0, CU_AD_FORMAT_FLOAT, 4, 0);
	struct probe probe = {{{1.5f}, {0.5f}}};

	fill_array(array, texels, sizeof texels, 1, 1);
	CUtexObject object = make_object(array, &how);
	struct value value = probe_once(module, "halves", object, probe);
	EQUALS(value.at[0].u, 0x3c00);
	EQUALS(value.at[1].u, 0xc000);
	EQUALS(value.at[2].u, 0x3800);
	EQUALS(value.at[3].u, 0x7bff);
	value = probe_once(module, "half_pairs", object, probe);
	EQUALS(value.at[0].u, 0xc0003c00);
	EQUALS(value.at[1].u, 0x7bff3800);
	value = probe_once(module, "resident", object, probe);
	NEAR(value.at[0].f, 1, 0);
	NEAR(value.at[3].f, 1, 0);
	probe.in[0].f = 2.5f;
	probe.in[1].f = 2.5f; // the coordinate is clamped after the offset was added
	NEAR(probe_once(module, "offset_2d", object, probe).at[1].f, 8, 0);
	WORKS(cuTexObjectDestroy(object));
	WORKS(cuArrayDestroy(array));
}

// A kernel can query the size of a texture through a texture object. The driver refuses kernels with other queries,
// which need a texture reference.
CONFORM(queries_of_handles)
{
	static const char *const missing[] = {"query_levels", "query_layers", "query_coordinates"};
	CUmodule module = need_reads();
	CUfunction function;

	for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
		FAILS(cuModuleGetFunction(&function, module, missing[i]));
	WORKS(cuModuleGetFunction(&function, module, "query"));
}

CONFORM(views)
{
	CUmodule module = need_reads();
	CUDA_TEXTURE_DESC how = reading(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT, CU_TRSF_READ_AS_INTEGER);
	CUarray array = make_array(4, 1, 3, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_LAYERED);
	uint32_t texels[3][4] = {{0}, {0, 0x04030201}, {0, 0x44332211}};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array}, found;
	CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_FLOAT_1X32,
					.width = 4,
					.height = 1,
					.depth = 3,
					.firstLayer = 1,
					.lastLayer = 2},
				found_view;
	CUDA_TEXTURE_DESC found_how;
	CUtexObject object;

	fill_array(array, texels, 16, 1, 3);
	NEED(cuTexObjectCreate(&object, &resource, &how, &view));
	struct probe probe = {{{1.5f}, {0.5f}, {0}, {.i = 1}}};
	float want;
	memcpy(&want, &texels[2][1], 4);
	NEAR(probe_once(module, "read_a2d", object, probe).at[0].f, want, 0);
	WORKS(cuTexObjectGetResourceDesc(&found, object));
	EQUALS(found.resType, CU_RESOURCE_TYPE_ARRAY);
	HOLDS(found.res.array.hArray == array);
	WORKS(cuTexObjectGetTextureDesc(&found_how, object));
	EQUALS(found_how.flags, CU_TRSF_READ_AS_INTEGER);
	EQUALS(found_how.addressMode[2], CU_TR_ADDRESS_MODE_CLAMP);
	WORKS(cuTexObjectGetResourceViewDesc(&found_view, object));
	EQUALS(found_view.firstLayer, 1);
	WORKS(cuTexObjectDestroy(object));
	view.lastLayer = 3; // the driver does not check this field
	NEED(cuTexObjectCreate(&object, &resource, &how, &view));
	WORKS(cuTexObjectDestroy(object));
	view.lastLayer = 2;
	view.width = 5;
	GIVES(cuTexObjectCreate(&object, &resource, &how, &view), CUDA_ERROR_INVALID_VALUE);
	NEED(cuTexObjectCreate(&object, &resource, &how, NULL));
	memset(&found_view, 0x55, sizeof found_view);
	WORKS(cuTexObjectGetResourceViewDesc(&found_view, object)); // the texture has no view
	EQUALS(found_view.firstLayer, 0x55555555);
	WORKS(cuTexObjectDestroy(object));
	WORKS(cuArrayDestroy(array));
}

CONFORM(invalid_descriptions)
{
	CUDA_TEXTURE_DESC how = {0};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
	CUdeviceptr memory;
	CUtexObject object = 77;

	need_context();
	NEED(cuMemAlloc(&memory, 4096));
	resource.res.linear.devPtr = memory + 4; // the address is not aligned to TEXTURE_ALIGNMENT
	resource.res.linear.format = CU_AD_FORMAT_FLOAT;
	resource.res.linear.numChannels = 1;
	resource.res.linear.sizeInBytes = 1024;
	GIVES(cuTexObjectCreate(&object, &resource, &how, NULL), CUDA_ERROR_INVALID_VALUE);
	resource.res.linear.devPtr = memory;
	resource.res.linear.numChannels = 3;
	GIVES(cuTexObjectCreate(&object, &resource, &how, NULL), CUDA_ERROR_INVALID_VALUE);
	resource.res.linear.numChannels = 1;
	resource.flags = 1;
	GIVES(cuTexObjectCreate(&object, &resource, &how, NULL), CUDA_ERROR_INVALID_VALUE);
	resource.flags = 0;
	GIVES(cuTexObjectCreate(NULL, &resource, &how, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuTexObjectCreate(&object, NULL, &how, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuTexObjectCreate(&object, &resource, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	EQUALS(object, 77);
	CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_FLOAT_1X32, .width = 256};
	WORKS(cuTexObjectCreate(&object, &resource, &how, &view)); // linear memory has no view: the driver ignores it
	WORKS(cuTexObjectDestroy(object));
	resource.resType = 9;
	GIVES(cuTexObjectCreate(&object, &resource, &how, NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemFree(memory));
}
