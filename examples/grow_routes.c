// Implements the routes. Each allocates one chunk of device memory in its own way, and writes to it.
#include "grow_routes.h"

#define MiB ((size_t)1 << 20)

struct route_setup setup;

static CUresult touch_memory(CUdeviceptr address, size_t bytes)
{
	if (!setup.touch)
		return CUDA_SUCCESS;
	CUresult result = cuMemsetD8(address, 0x5a, bytes);
	return result != CUDA_SUCCESS ? result : cuCtxSynchronize();
}

static CUresult allocate_by_alloc(size_t chunk, size_t *ret_bytes)
{
	CUdeviceptr address;
	CUresult result = cuMemAlloc(&address, chunk);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_bytes = chunk;
	return touch_memory(address, chunk);
}

// Allocates rows of 4000 bytes, whose pitch is larger than their width.
static CUresult allocate_by_pitch(size_t chunk, size_t *ret_bytes)
{
	CUdeviceptr address;
	size_t pitch = 4096, rows = chunk / pitch;
	CUresult result = cuMemAllocPitch(&address, &pitch, 4000, rows, 4);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_bytes = pitch * rows;
	return touch_memory(address, pitch * rows);
}

// Writes to the memory in the order of the default stream, and waits.
static CUresult touch_in_stream(CUdeviceptr address, size_t bytes)
{
	CUresult result = setup.touch ? cuMemsetD8Async(address, 0x5a, bytes, NULL) : CUDA_SUCCESS;

	return result != CUDA_SUCCESS ? result : cuStreamSynchronize(NULL);
}

static CUresult allocate_by_async(size_t chunk, size_t *ret_bytes)
{
	CUdeviceptr address;
	CUresult result = cuMemAllocAsync(&address, chunk, NULL);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_bytes = chunk;
	return touch_in_stream(address, chunk);
}

static CUresult allocate_by_pool(size_t chunk, size_t *ret_bytes)
{
	static CUmemoryPool pool;
	CUdeviceptr address;
	CUresult result = CUDA_SUCCESS;

	if (!pool) {
		CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = setup.device}};
		result = cuMemPoolCreate(&pool, &properties);
	}
	if (result == CUDA_SUCCESS)
		result = cuMemAllocFromPoolAsync(&address, chunk, pool, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_bytes = chunk;
	return touch_in_stream(address, chunk);
}

static CUresult map_memory(CUmemGenericAllocationHandle handle, size_t bytes)
{
	CUdeviceptr address;
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = setup.device},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUresult result = cuMemAddressReserve(&address, bytes, 0, 0, 0);

	if (result == CUDA_SUCCESS)
		result = cuMemMap(address, bytes, 0, handle, 0);
	if (result == CUDA_SUCCESS)
		result = cuMemSetAccess(address, bytes, &access, 1);
	return result == CUDA_SUCCESS ? touch_memory(address, bytes) : result;
}

static CUresult create_memory(size_t chunk, CUmemGenericAllocationHandle *ret_handle)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = setup.device}};

	return cuMemCreate(ret_handle, chunk, &properties, 0);
}

// Allocates physical memory that is never mapped.
static CUresult allocate_by_create(size_t chunk, size_t *ret_bytes)
{
	CUmemGenericAllocationHandle handle;
	CUresult result = create_memory(chunk, &handle);

	if (result == CUDA_SUCCESS)
		*ret_bytes = chunk;
	return result;
}

static CUresult allocate_by_vmm(size_t chunk, size_t *ret_bytes)
{
	CUmemGenericAllocationHandle handle;
	CUresult result = create_memory(chunk, &handle);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_bytes = chunk;
	return map_memory(handle, chunk);
}

// Allocates physical memory, maps it and releases its handle. Then only the mapping keeps the memory.
static CUresult allocate_by_released(size_t chunk, size_t *ret_bytes)
{
	CUmemGenericAllocationHandle handle;
	CUresult result = create_memory(chunk, &handle);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_bytes = chunk;
	result = map_memory(handle, chunk);
	return result == CUDA_SUCCESS ? cuMemRelease(handle) : result;
}

// Allocates physical memory, exports it and releases its handle. Then only the descriptor keeps the memory, which is
// never mapped.
static CUresult allocate_by_exported(size_t chunk, size_t *ret_bytes)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = setup.device}};
	int descriptor;
	CUresult result = cuMemCreate(&handle, chunk, &properties, 0);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_bytes = chunk;
	result = cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	return result == CUDA_SUCCESS ? cuMemRelease(handle) : result;
}

static CUresult allocate_by_import(size_t chunk, size_t *ret_bytes)
{
	CUmemGenericAllocationHandle handle;
	CUresult result = cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)setup.descriptor,
							 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

	if (result == CUDA_SUCCESS)
		result = map_memory(handle, chunk); // all of it: --chunk is the size of the exported memory
	if (result == CUDA_SUCCESS)
		*ret_bytes = chunk;
	return result;
}

// Allocates an array with rows of 16 KiB.
static CUresult allocate_by_array(size_t chunk, size_t *ret_bytes)
{
	CUarray array;
	CUDA_ARRAY_DESCRIPTOR descriptor = {
		.Width = 4096, .Height = chunk / 16384, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUresult result = cuArrayCreate(&array, &descriptor);

	if (result == CUDA_SUCCESS)
		*ret_bytes = chunk;
	return result;
}

// Allocates a mipmapped array, whose levels have 4/3 of the bytes of the first level.
static CUresult allocate_by_mipmap(size_t chunk, size_t *ret_bytes)
{
	CUmipmappedArray array;
	CUDA_ARRAY3D_DESCRIPTOR descriptor = {
		.Width = 4096, .Height = chunk / 16384, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUresult result = cuMipmappedArrayCreate(&array, &descriptor, 5);

	if (result == CUDA_SUCCESS)
		*ret_bytes = chunk + chunk / 4 + chunk / 16 + chunk / 64 + chunk / 256;
	return result;
}

// Launches a graph with one allocation that is not freed. The launch allocates the memory.
static CUresult allocate_by_graph(size_t chunk, size_t *ret_bytes)
{
	CUgraph graph;
	CUgraphNode node;
	CUgraphExec exec;
	CUDA_MEM_ALLOC_NODE_PARAMS wanted = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = setup.device}},
		.bytesize = chunk};
	static CUstream stream;
	CUresult result = stream ? CUDA_SUCCESS : cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);

	if (result == CUDA_SUCCESS)
		result = cuGraphCreate(&graph, 0);
	if (result == CUDA_SUCCESS)
		result = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &wanted);
	if (result == CUDA_SUCCESS)
		result = cuGraphInstantiate(&exec, graph, 0);
	if (result == CUDA_SUCCESS)
		result = cuGraphLaunch(exec, stream);
	if (result == CUDA_SUCCESS)
		result = cuStreamSynchronize(stream);
	if (result != CUDA_SUCCESS)
		return result;
	*ret_bytes = chunk;
	return touch_memory(wanted.dptr, chunk);
}

static CUresult allocate_by_managed(size_t chunk, size_t *ret_bytes)
{
	CUdeviceptr address;
	CUresult result = cuMemAllocManaged(&address, chunk, CU_MEM_ATTACH_GLOBAL);

	if (result != CUDA_SUCCESS)
		return result;
	*ret_bytes = chunk;
	return touch_memory(address, chunk);
}

static const struct route routes[] = {
	{"alloc", "cuMemAlloc", allocate_by_alloc, 512},
	{"pitch", "cuMemAllocPitch", allocate_by_pitch, 4096},
	{"async", "cuMemAllocAsync from the default pool", allocate_by_async, 512},
	{"pool", "cuMemAllocFromPoolAsync from a pool of its own", allocate_by_pool, 512},
	{"create", "cuMemCreate, never mapped", allocate_by_create, 2 * MiB},
	{"vmm", "cuMemCreate and cuMemMap", allocate_by_vmm, 2 * MiB},
	{"released", "cuMemCreate, cuMemMap, then cuMemRelease", allocate_by_released, 2 * MiB},
	{"exported", "cuMemCreate, an export to a descriptor, then cuMemRelease", allocate_by_exported, 2 * MiB},
	{"import", "cuMemImportFromShareableHandle of --descriptor, again and again", allocate_by_import, 2 * MiB},
	{"array", "cuArrayCreate", allocate_by_array, 16384},
	{"mipmap", "cuMipmappedArrayCreate", allocate_by_mipmap, 256 * 1024},
	{"graph", "an allocation node of a graph", allocate_by_graph, 512},
	{"managed", "cuMemAllocManaged", allocate_by_managed, 4096},
};

const struct route *route_find(const char *name)
{
	for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
		if (strcmp(routes[i].name, name) == 0)
			return &routes[i];
	return NULL;
}

void route_list(FILE *file)
{
	for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
		fprintf(file, "  %-9s %s\n", routes[i].name, routes[i].how);
}
