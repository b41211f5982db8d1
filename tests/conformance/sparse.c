// Tests sparse arrays: shapes of tiles, mapping of tiles, and reads of tiles with and without memory.
#include "texture.h"

enum { SIDE = 512, TILE_BYTES = 65536, POOL_BYTES = 8 << 20 };

struct tile { // extent of a tile, in texels
	unsigned width, height, depth;
};

static CUarray make_sparse(size_t width, size_t height, size_t depth, unsigned channels, unsigned flags)
{
	need_context();
	return make_array(width, height, depth, CU_AD_FORMAT_FLOAT, channels, flags | CUDA_ARRAY3D_SPARSE);
}

static CUmipmappedArray make_mipmap(size_t width, size_t height, size_t depth, unsigned flags, unsigned levels)
{
	CUmipmappedArray mipmap = NULL;
	CUDA_ARRAY3D_DESCRIPTOR wanted = {.Width = width,
					  .Height = height,
					  .Depth = depth,
					  .Format = CU_AD_FORMAT_FLOAT,
					  .NumChannels = 1,
					  .Flags = flags | CUDA_ARRAY3D_SPARSE};

	need_context();
	NEED(cuMipmappedArrayCreate(&mipmap, &wanted, levels));
	return mipmap;
}

static struct tile tile_of(CUarray array)
{
	CUDA_ARRAY_SPARSE_PROPERTIES properties;

	NEED(cuArrayGetSparseProperties(&properties, array));
	return (struct tile){properties.tileExtent.width, properties.tileExtent.height, properties.tileExtent.depth};
}

static CUmemGenericAllocationHandle make_memory(size_t size, unsigned usage)
{
	CUmemGenericAllocationHandle memory = 0;
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
					  .allocFlags.usage = usage};

	NEED(cuMemCreate(&memory, size, &properties, 0));
	return memory;
}

// Returns the description of a part of an array that starts at texel (x, y). If `memory` is 0, the description unmaps
// the part.
static CUarrayMapInfo region(CUarray array, CUmemGenericAllocationHandle memory, unsigned long long offset, unsigned x,
			     unsigned y, unsigned width, unsigned height)
{
	return (CUarrayMapInfo){.resourceType = CU_RESOURCE_TYPE_ARRAY,
				.resource.array = array,
				.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
				.subresource.sparseLevel = {.offsetX = x,
							    .offsetY = y,
							    .extentWidth = width,
							    .extentHeight = height,
							    .extentDepth = 1},
				.memOperationType = memory ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP,
				.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
				.memHandle.memHandle = memory,
				.offset = offset,
				.deviceBitMask = 1u << device};
}

static CUarrayMapInfo tail(CUmipmappedArray mipmap, CUmemGenericAllocationHandle memory, unsigned layer,
			   unsigned long long offset, unsigned long long size)
{
	CUarrayMapInfo info = region(NULL, memory, 0, 0, 0, 0, 0);

	info.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
	info.resource.mipmap = mipmap;
	info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
	memset(&info.subresource, 0, sizeof info.subresource);
	info.subresource.miptail.layer = layer;
	info.subresource.miptail.offset = offset;
	info.subresource.miptail.size = size;
	return info;
}

static CUarrayMapInfo level_region(CUmipmappedArray mipmap, CUmemGenericAllocationHandle memory, unsigned level,
				   unsigned width, unsigned height)
{
	CUarrayMapInfo info = region(NULL, memory, 0, 0, 0, width, height);

	info.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
	info.resource.mipmap = mipmap;
	info.subresource.sparseLevel.level = level;
	return info;
}

static CUresult map(CUarrayMapInfo info)
{
	CUresult result = cuMemMapArrayAsync(&info, 1, NULL);

	NEED(cuStreamSynchronize(NULL));
	return result;
}

// Values of the texels of one plane of the array, `SIDE` in each row: those to write, and those that were read.
static float plane[SIDE * SIDE], found[SIDE * SIDE];

static void copy_plane(CUarray array, bool to_array, unsigned side, unsigned z)
{
	CUDA_MEMCPY3D copy = {.WidthInBytes = side * sizeof(float), .Height = side, .Depth = 1};

	if (to_array) {
		copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = plane, copy.srcPitch = SIDE * sizeof(float);
		copy.dstMemoryType = CU_MEMORYTYPE_ARRAY, copy.dstArray = array, copy.dstZ = z;
	} else {
		memset(found, 0xee, sizeof found);
		copy.dstMemoryType = CU_MEMORYTYPE_HOST, copy.dstHost = found, copy.dstPitch = SIDE * sizeof(float);
		copy.srcMemoryType = CU_MEMORYTYPE_ARRAY, copy.srcArray = array, copy.srcZ = z;
	}
	NEED(cuMemcpy3D(&copy));
}

static void number_texels(void)
{
	for (int i = 0; i < SIDE * SIDE; i++)
		plane[i] = 1 + i;
}

// Counts the texels in a rectangle of `found` whose value is `factor` times their value in `plane`.
static unsigned count_numbers(unsigned x, unsigned y, unsigned width, unsigned height, int factor)
{
	unsigned count = 0;

	for (unsigned row = y; row < y + height; row++)
		for (unsigned column = x; column < x + width; column++)
			count += found[row * SIDE + column] == factor * plane[row * SIDE + column];
	return count;
}

CONFORM(supported)
{
	int supported = 0;

	need_context();
	WORKS(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, device));
	EQUALS(supported, 1);
}

CONFORM(shapes_of_tiles)
{
	static const struct {
		CUarray_format format;
		unsigned channels;
		struct tile flat, deep;
	} shapes[] = {
		{CU_AD_FORMAT_UNSIGNED_INT8, 1, {256, 256, 1}, {64, 32, 32}},
		{CU_AD_FORMAT_UNSIGNED_INT16, 1, {256, 128, 1}, {32, 32, 32}},
		{CU_AD_FORMAT_FLOAT, 1, {128, 128, 1}, {32, 32, 16}},
		{CU_AD_FORMAT_FLOAT, 2, {128, 64, 1}, {32, 16, 16}},
		{CU_AD_FORMAT_FLOAT, 4, {64, 64, 1}, {16, 16, 16}},
	};

	need_context();
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (int deep = 0; deep < 2; deep++) {
			CUarray array = make_array(256, 256, deep ? 256 : 0, shapes[i].format, shapes[i].channels,
						   CUDA_ARRAY3D_SPARSE);
			struct tile want = deep ? shapes[i].deep : shapes[i].flat, got = tile_of(array);
			EQUALS(got.width, want.width);
			EQUALS(got.height, want.height);
			EQUALS(got.depth, want.depth);
			WORKS(cuArrayDestroy(array));
		}
}

struct tail { // the driver's description of the mipmap tail: the levels that are smaller than a tile
	unsigned first;
	unsigned long long size;
	bool single;
};

static struct tail tail_of(CUmipmappedArray mipmap)
{
	CUDA_ARRAY_SPARSE_PROPERTIES properties;

	NEED(cuMipmappedArrayGetSparseProperties(&properties, mipmap));
	return (struct tail){properties.miptailFirstLevel, properties.miptailSize,
			     properties.flags == CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL};
}

// Each layer has a mipmap tail, or all layers share one if even the first level is smaller than a tile.
CONFORM(tails)
{
	static const struct {
		size_t width, height, depth;
		unsigned flags, levels;
		struct tail tail;
	} shapes[] = {
		{2048, 2048, 0, 0, 12, {5, 65536, false}}, {2048, 2048, 4, CUDA_ARRAY3D_LAYERED, 12, {5, 65536, false}},
		{1000, 600, 0, 0, 10, {3, 131072, false}}, {5000, 300, 0, 0, 13, {2, 917504, false}},
		{128, 128, 0, 0, 1, {1, 0, false}},	   {1024, 1024, 0, 0, 5, {4, 65536, false}},
		{129, 127, 0, 0, 8, {0, 131072, true}},	   {64, 64, 3, CUDA_ARRAY3D_LAYERED, 7, {0, 131072, true}},
		{256, 256, 256, 0, 9, {4, 65536, false}},  {512, 512, 4, 0, 10, {0, 4849664, true}},
		{100, 70, 33, 0, 7, {2, 65536, false}},
	};

	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		CUmipmappedArray mipmap = make_mipmap(shapes[i].width, shapes[i].height, shapes[i].depth,
						      shapes[i].flags, shapes[i].levels);
		struct tail tail = tail_of(mipmap);
		EQUALS(tail.first, shapes[i].tail.first);
		EQUALS(tail.size, shapes[i].tail.size);
		EQUALS(tail.single, shapes[i].tail.single);
		WORKS(cuMipmappedArrayDestroy(mipmap));
	}
}

CONFORM(properties)
{
	CUDA_ARRAY_SPARSE_PROPERTIES properties = {0};
	CUarray plain, level, array = make_sparse(1024, 1024, 0, 1, 0),
			      small = make_sparse(64, 64, 3, 1, CUDA_ARRAY3D_LAYERED);
	CUmipmappedArray mipmap = make_mipmap(1024, 1024, 0, 0, 11);
	CUDA_ARRAY3D_DESCRIPTOR descriptor;
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs;

	WORKS(cuArrayGetSparseProperties(&properties, array));
	EQUALS(properties.miptailFirstLevel, 0);
	EQUALS(properties.miptailSize, 0);
	EQUALS(properties.flags, 0);
	// a level smaller than a tile is completely in the mipmap tail
	WORKS(cuArrayGetSparseProperties(&properties, small));
	EQUALS(properties.miptailFirstLevel, 0);
	EQUALS(properties.miptailSize, TILE_BYTES);
	EQUALS(properties.flags, CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL);
	WORKS(cuArrayDestroy(small));
	NEED(cuMipmappedArrayGetLevel(&level, mipmap, 0));
	GIVES(cuArrayGetSparseProperties(&properties, level), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuArray3DGetDescriptor(&descriptor, level));
	EQUALS(descriptor.Flags, CUDA_ARRAY3D_SPARSE);
	GIVES(cuArrayGetMemoryRequirements(&needs, array, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, device), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMipmappedArrayGetSparseProperties(NULL, mipmap), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMipmappedArrayDestroy(mipmap));
	WORKS(cuArrayDestroy(array));
	plain = make_array(64, 64, 0, CU_AD_FORMAT_FLOAT, 1, 0);
	GIVES(cuArrayGetSparseProperties(&properties, plain), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuArrayGetSparseProperties(NULL, plain), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuArrayGetSparseProperties(&properties, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMipmappedArrayGetSparseProperties(&properties, NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuArrayDestroy(plain));
}

CONFORM(refused_shapes)
{
	static const struct {
		size_t width, height, depth;
		unsigned flags;
		CUresult result;
	} shapes[] = {
		{1024, 1024, 0, CUDA_ARRAY3D_TEXTURE_GATHER, CUDA_SUCCESS},
		{1024, 1024, 0, CUDA_ARRAY3D_SURFACE_LDST, CUDA_ERROR_INVALID_VALUE},
		{1024, 1024, 0, CUDA_ARRAY3D_COLOR_ATTACHMENT, CUDA_ERROR_INVALID_VALUE},
		{1024, 1024, 0, CUDA_ARRAY3D_DEFERRED_MAPPING, CUDA_ERROR_INVALID_VALUE},
		{1024, 1024, 6, CUDA_ARRAY3D_CUBEMAP, CUDA_ERROR_INVALID_VALUE},
		{1024, 1024, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED, CUDA_ERROR_INVALID_VALUE},
		{1024, 0, 0, 0, CUDA_ERROR_INVALID_VALUE},
		{1024, 0, 4, CUDA_ARRAY3D_LAYERED, CUDA_ERROR_INVALID_VALUE},
	};

	need_context();
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		CUDA_ARRAY3D_DESCRIPTOR wanted = {.Width = shapes[i].width,
						  .Height = shapes[i].height,
						  .Depth = shapes[i].depth,
						  .Format = CU_AD_FORMAT_FLOAT,
						  .NumChannels = 1,
						  .Flags = shapes[i].flags | CUDA_ARRAY3D_SPARSE};
		CUarray array;
		CUmipmappedArray mipmap;
		GIVES(cuArray3DCreate(&array, &wanted), shapes[i].result);
		GIVES(cuMipmappedArrayCreate(&mipmap, &wanted, 11), shapes[i].result);
		if (shapes[i].result == CUDA_SUCCESS) {
			WORKS(cuArrayDestroy(array));
			WORKS(cuMipmappedArrayDestroy(mipmap));
		}
	}
}

// Memory that was created for tiles cannot be mapped as other memory. The driver does not report that it is for tiles.
CONFORM(tile_pools)
{
	need_context();
	CUmemGenericAllocationHandle memory = make_memory(POOL_BYTES, CU_MEM_CREATE_USAGE_TILE_POOL);
	CUmemAllocationProp properties;
	CUdeviceptr address;

	WORKS(cuMemGetAllocationPropertiesFromHandle(&properties, memory));
	EQUALS(properties.allocFlags.usage, 0);
	NEED(cuMemAddressReserve(&address, POOL_BYTES, 0, 0, 0));
	GIVES(cuMemMap(address, POOL_BYTES, 0, memory, 0), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemAddressFree(address, POOL_BYTES));
	WORKS(cuMemRelease(memory));
}

// Checks that a sparse array takes no memory besides the memory of its tiles.
CONFORM(cost)
{
	need_context();
	size_t before = memory_used();
	CUarray array = make_sparse(4096, 4096, 0, 1, 0);
	CUmipmappedArray mipmap = make_mipmap(4096, 4096, 0, 0, 3);

	EQUALS(memory_used(), before);
	WORKS(cuArrayDestroy(array));
	WORKS(cuMipmappedArrayDestroy(mipmap));
}

CONFORM(layers)
{
	CUarray layered = make_sparse(SIDE, SIDE, 3, 1, CUDA_ARRAY3D_LAYERED);
	CUmemGenericAllocationHandle memory = make_memory(POOL_BYTES, CU_MEM_CREATE_USAGE_TILE_POOL);
	struct tile tile = tile_of(layered);
	CUarrayMapInfo info = region(layered, memory, 0, 0, 0, tile.width, tile.height);

	number_texels();
	info.subresource.sparseLevel.layer = 1;
	WORKS(map(info));
	for (unsigned z = 0; z < 3; z++)
		copy_plane(layered, true, SIDE, z);
	for (unsigned z = 0; z < 3; z++) {
		copy_plane(layered, false, SIDE, z);
		unsigned kept = z == 1 ? tile.width * tile.height : 0;
		EQUALS(count_numbers(0, 0, tile.width, tile.height, 1), kept);
		EQUALS(count_numbers(0, 0, SIDE, SIDE, 0), SIDE * SIDE - kept); // the unmapped tiles read as zero
	}
	WORKS(cuArrayDestroy(layered));
	WORKS(cuMemRelease(memory));
}

CONFORM(mip_tail)
{
	CUmipmappedArray mipmap = make_mipmap(SIDE, SIDE, 0, 0, 10);
	CUmemGenericAllocationHandle memory = make_memory(POOL_BYTES, CU_MEM_CREATE_USAGE_TILE_POOL);
	CUDA_ARRAY_SPARSE_PROPERTIES properties;
	CUarray level;

	NEED(cuMipmappedArrayGetSparseProperties(&properties, mipmap));
	unsigned first = properties.miptailFirstLevel;
	unsigned long long size = properties.miptailSize;
	number_texels();
	for (int mapped = 0; mapped < 2; mapped++) {
		if (mapped)
			WORKS(map(tail(mipmap, memory, 0, 0, size)));
		for (unsigned i = 0; i < 10; i++) {
			NEED(cuMipmappedArrayGetLevel(&level, mipmap, i));
			copy_plane(level, true, SIDE >> i, 0);
		}
		// compare only after all parts were written, which shows that the parts do not overlap
		for (unsigned i = 0; i < 10; i++) {
			NEED(cuMipmappedArrayGetLevel(&level, mipmap, i));
			copy_plane(level, false, SIDE >> i, 0);
			EQUALS(count_numbers(0, 0, SIDE >> i, SIDE >> i, mapped && i >= first),
			       (SIDE >> i) * (SIDE >> i));
		}
	}
	WORKS(map(level_region(mipmap, memory, 0, SIDE, SIDE)));
	WORKS(map(tail(mipmap, 0, 0, 0, size)));
	NEED(cuMipmappedArrayGetLevel(&level, mipmap, 0));
	copy_plane(level, true, SIDE, 0);
	copy_plane(level, false, SIDE, 0);
	EQUALS(count_numbers(0, 0, SIDE, SIDE, 1), SIDE * SIDE);
	NEED(cuMipmappedArrayGetLevel(&level, mipmap, 9));
	copy_plane(level, false, 1, 0);
	EQUALS(found[0], 0);
	WORKS(cuMipmappedArrayDestroy(mipmap));
	WORKS(cuMemRelease(memory));
}

#define WITH(code, field, value)             \
	do {                                 \
		CUarrayMapInfo info_ = base; \
		info_.field = (value);       \
		GIVES(map(info_), code);     \
	} while (0)

CONFORM(refused)
{
	CUarray array = make_sparse(1024, 1024, 0, 1, 0);
	CUmemGenericAllocationHandle memory = make_memory(POOL_BYTES, CU_MEM_CREATE_USAGE_TILE_POOL);
	struct tile tile = tile_of(array);
	CUarrayMapInfo base = region(array, memory, 0, 0, 0, tile.width, tile.height);

	WORKS(map(base));
	WORKS(map(base)); // mapping the same tile again is allowed
	WITH(CUDA_SUCCESS, offset, POOL_BYTES - TILE_BYTES);
	WORKS(map(region(array, 0, 0, 0, 0, tile.width, tile.height)));
	WORKS(map(region(array, 0, 0, 0, 0, tile.width, tile.height)));
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.offsetX, 1);
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.offsetX, tile.width / 2);
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.offsetX, 1024);
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.offsetY, 1);
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.offsetZ, 1);
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.extentWidth, 0);
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.extentWidth, 1);
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.extentWidth, 1024 + tile.width);
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.extentHeight, 1);
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.extentDepth, 0);
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.extentDepth, 2);
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.level, 1);
	WITH(CUDA_ERROR_INVALID_VALUE, subresource.sparseLevel.layer, 1);
	WITH(CUDA_ERROR_INVALID_VALUE, offset, 1);
	WITH(CUDA_ERROR_INVALID_VALUE, offset, 4096);
	WITH(CUDA_ERROR_INVALID_VALUE, offset, POOL_BYTES);
	GIVES(map(region(array, memory, POOL_BYTES - TILE_BYTES, 0, 0, 2 * tile.width, tile.height)),
	      CUDA_ERROR_INVALID_VALUE);
	WORKS(map(region(array, memory, 0, 0, 0, 1024, 1024)));
	WORKS(map(region(array, 0, 0, 0, 0, 1024, 1024)));
	WORKS(cuArrayDestroy(array));
	WORKS(cuMemRelease(memory));
}

static void wait_for(void *go)
{
	while (!__atomic_load_n((int *)go, __ATOMIC_ACQUIRE))
		usleep(1000);
}

// The call does not wait: the tile is unmapped in stream order. A capturing stream refuses the call.
CONFORM(streams)
{
	CUarray array = make_sparse(SIDE, SIDE, 0, 1, 0);
	CUmemGenericAllocationHandle memory = make_memory(POOL_BYTES, CU_MEM_CREATE_USAGE_TILE_POOL);
	struct tile tile = tile_of(array);
	CUarrayMapInfo unmap = region(array, 0, 0, 0, 0, tile.width, tile.height);
	CUDA_MEMCPY2D copy = {.dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = found,
			      .dstPitch = 16,
			      .srcMemoryType = CU_MEMORYTYPE_ARRAY,
			      .srcArray = array,
			      .WidthInBytes = 16,
			      .Height = 1};
	CUstream streams[2];
	CUgraph graph = NULL;
	int go = 0;

	for (int i = 0; i < 2; i++)
		NEED(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	WORKS(map(region(array, memory, 0, 0, 0, tile.width, tile.height)));
	number_texels();
	copy_plane(array, true, SIDE, 0);
	NEED(cuLaunchHostFunc(streams[0], wait_for, &go));
	WORKS(cuMemMapArrayAsync(&unmap, 1, streams[0]));
	GIVES(cuStreamQuery(streams[0]), CUDA_ERROR_NOT_READY);
	WORKS(cuMemcpy2DAsync(&copy, streams[1]));
	NEED(cuStreamSynchronize(streams[1]));
	EQUALS(found[1], 2);
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	NEED(cuStreamSynchronize(streams[0]));
	WORKS(cuMemcpy2DAsync(&copy, streams[1]));
	NEED(cuStreamSynchronize(streams[1]));
	EQUALS(found[1], 0);
	for (int mode = 0; mode < 3; mode++) {
		NEED(cuStreamBeginCapture(streams[0], mode));
		GIVES(cuMemMapArrayAsync(&unmap, 1, streams[0]), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		GIVES(cuStreamEndCapture(streams[0], &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	}
	NEED(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
	WORKS(cuMemMapArrayAsync(&unmap, 1, streams[1])); // allowed, since another stream than streams[1] captures
	WORKS(cuStreamEndCapture(streams[0], &graph));
	WORKS(cuGraphDestroy(graph));
	for (int i = 0; i < 2; i++)
		WORKS(cuStreamDestroy(streams[i]));
	WORKS(cuArrayDestroy(array));
	WORKS(cuMemRelease(memory));
}
