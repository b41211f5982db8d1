// Tests pools in host and in managed memory: location, access, sharing. Skipped if the device does not support them.
#include "conformance.h"

static CUstream stream;

static void need_support(CUdevice_attribute attribute)
{
	int supported = 0;

	need_context();
	NEED(cuDeviceGetAttribute(&supported, attribute, device));
	if (!supported)
		SKIP("no pools there on this device");
	if (!stream)
		NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static CUmemoryPool make(CUmemAllocationType type, CUmemLocationType location, int id,
			 CUmemAllocationHandleType handles)
{
	CUmemPoolProps properties = {
		.allocType = type, .handleTypes = handles, .location = {.type = location, .id = id}};
	CUmemoryPool made = NULL;

	NEED(cuMemPoolCreate(&made, &properties));
	return made;
}

static void open_to_device(CUmemoryPool pool)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	WORKS(cuMemPoolSetAccess(pool, &access, 1));
}

// Host and device write memory of the pool, and each reads what the other wrote.
static void use(CUmemoryPool pool)
{
	CUdeviceptr address = 0;

	NEED(cuMemAllocFromPoolAsync(&address, 64 * KiB, pool, stream));
	NEED(cuStreamSynchronize(stream));
	volatile unsigned *host = (volatile unsigned *)address;
	host[0] = 17;
	WORKS(cuMemsetD32Async(address + 4, 23, 1, stream));
	WORKS(cuStreamSynchronize(stream));
	EQUALS(host[0], 17);
	EQUALS(host[1], 23);
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
}

CONFORM(in_host_memory)
{
	need_support(CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED);
	size_t before = memory_used();
	CUmemoryPool pool = make(CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_HANDLE_TYPE_NONE);
	open_to_device(pool);
	use(pool);
	EQUALS(memory_used(), before);
	WORKS(cuMemPoolDestroy(pool));
	CUmemPoolProps wrong = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_HOST},
				.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
	GIVES(cuMemPoolCreate(&pool, &wrong), CUDA_ERROR_INVALID_VALUE); // not shareable
	wrong = (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT}};
	GIVES(cuMemPoolCreate(&pool, &wrong), CUDA_ERROR_INVALID_VALUE);
}

// Checks the access that the pool reports for the device, the host, and a NUMA node.
static void check_access(CUmemoryPool pool, int here, int host, int node)
{
	CUmemLocation places[] = {{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
				  {.type = CU_MEM_LOCATION_TYPE_HOST},
				  {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA}};
	const int wanted[] = {here, host, node};

	for (int i = 0; i < 3; i++) {
		CUmemAccess_flags flags = 99;
		WORKS(cuMemPoolGetAccess(&flags, pool, &places[i]));
		EQUALS(flags, wanted[i]);
	}
}

CONFORM(access_of_device_host_and_node)
{
	const int both = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	CUmemAccessDesc host = {.location = {.type = CU_MEM_LOCATION_TYPE_HOST}, .flags = both};
	CUmemoryPool pool = NULL;

	need_support(CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED);
	WORKS(cuDeviceGetDefaultMemPool(&pool, device));
	check_access(pool, both, 0, 0);
	pool = make(CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_HANDLE_TYPE_NONE);
	check_access(pool, 0, both, both);
	CUdeviceptr closed = 0;
	unsigned word = 0;
	NEED(cuMemAllocFromPoolAsync(&closed, 64 * KiB, pool, stream));
	NEED(cuStreamSynchronize(stream));
	*(volatile unsigned *)closed = 5;
	GIVES(cuMemcpyDtoH(&word, closed, 4), CUDA_ERROR_INVALID_VALUE); // the device has no access to this pool
	GIVES(cuMemsetD8Async(closed, 1, 16, stream), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemcpy((CUdeviceptr)(uintptr_t)&word, closed, 4)); // the host does
	EQUALS(word, 5);
	WORKS(cuMemFreeAsync(closed, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemPoolSetAccess(pool, &host, 1));
	open_to_device(pool);
	check_access(pool, both, both, both);
	CUdeviceptr address = 0;
	CUcontext owner = NULL;
	int ordinal = 99;
	NEED(cuMemAllocFromPoolAsync(&address, 64 * KiB, pool, stream));
	NEED(cuStreamSynchronize(stream));
	WORKS(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
	EQUALS(ordinal, device);
	WORKS(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address));
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemPoolDestroy(pool));
	pool = make(CU_MEM_ALLOCATION_TYPE_MANAGED, CU_MEM_LOCATION_TYPE_NONE, 0, CU_MEM_HANDLE_TYPE_NONE);
	check_access(pool, 0, 0, 0);
	WORKS(cuMemPoolDestroy(pool));
}

CONFORM(on_a_node)
{
	need_support(CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED);
	int node = 0;
	NEED(cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device));
	if (node < 0)
		node = 0;
	CUmemoryPool pool =
		make(CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST_NUMA, node, CU_MEM_HANDLE_TYPE_NONE);
	open_to_device(pool);
	use(pool);
	WORKS(cuMemPoolDestroy(pool));
	CUmemPoolProps wrong = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 9999}};
	FAILS(cuMemPoolCreate(&pool, &wrong));
}

CONFORM(default_and_current_pools)
{
	CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST}, here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUmemoryPool standard = NULL, current = NULL, of_device = NULL, named = NULL;

	need_support(CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED);
	here.id = device;
	WORKS(cuMemGetDefaultMemPool(&named, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
	WORKS(cuDeviceGetDefaultMemPool(&of_device, device));
	HOLDS(named == of_device);
	WORKS(cuMemGetDefaultMemPool(&standard, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
	WORKS(cuMemGetMemPool(&current, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
	HOLDS(standard != NULL && standard == current && standard != of_device);
	CUmemoryPool pool = make(CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_HANDLE_TYPE_NONE);
	WORKS(cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
	WORKS(cuMemGetMemPool(&current, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
	HOLDS(current == pool);
	GIVES(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, pool), CUDA_ERROR_INVALID_VALUE); // not here
	WORKS(cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_PINNED, standard));
	WORKS(cuMemPoolDestroy(pool));
	FAILS(cuMemPoolDestroy(standard));
	GIVES(cuMemGetMemPool(&current, &(CUmemLocation){.type = CU_MEM_LOCATION_TYPE_NONE},
			      CU_MEM_ALLOCATION_TYPE_PINNED),
	      CUDA_ERROR_INVALID_VALUE);
}

CONFORM(in_managed_memory)
{
	CUmemLocation nowhere = {.type = CU_MEM_LOCATION_TYPE_NONE};
	CUmemoryPool standard = NULL, pool;
	CUdeviceptr address = 0;
	unsigned managed = 0;
	int concurrent = 0;

	need_support(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
	NEED(cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device));
	if (!concurrent)
		SKIP("no concurrent managed access here");
	WORKS(cuMemGetDefaultMemPool(&standard, &nowhere, CU_MEM_ALLOCATION_TYPE_MANAGED));
	use(standard);
	pool = make(CU_MEM_ALLOCATION_TYPE_MANAGED, CU_MEM_LOCATION_TYPE_DEVICE, device, CU_MEM_HANDLE_TYPE_NONE);
	use(pool);
	NEED(cuMemAllocFromPoolAsync(&address, 4 * MiB, pool, stream));
	NEED(cuStreamSynchronize(stream));
	WORKS(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
	EQUALS(managed & 0xff, 1);
	CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	// The pool determines the location: advice on its memory is refused.
	GIVES(cuMemAdvise(address, 4 * MiB, CU_MEM_ADVISE_SET_READ_MOSTLY, here), CUDA_ERROR_NOT_SUPPORTED);
	GIVES(cuMemAdvise(address, 4 * MiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here), CUDA_ERROR_NOT_SUPPORTED);
	WORKS(cuMemPrefetchAsync(address, 4 * MiB, here, 0, stream));
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemPoolDestroy(pool));
}

// A child process that imports the pool and the memory, reads the memory, and writes an answer.
CHILD(importer)
{
	CUmemPoolPtrExportData data;
	CUmemoryPool pool = NULL;
	CUdeviceptr address = 0;
	int descriptor = 0, at = 0;

	if (sscanf(argument, "%d %n", &descriptor, &at) != 1)
		_exit(2);
	for (size_t i = 0; i < sizeof data; i++)
		sscanf(argument + at + 2 * i, "%2hhx", (unsigned char *)&data + i);
	need_context();
	NEED(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)descriptor,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CUmemoryPool again = NULL;
	WORKS(cuMemPoolImportFromShareableHandle(&again, (void *)(intptr_t)descriptor,
						 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	HOLDS(again == pool); // a repeated import returns the same pool, as it does for device pools
	NEED(cuMemPoolImportPointer(&address, pool, &data));
	GIVES(cuMemPoolImportPointer(&(CUdeviceptr){0}, again, &data),
	      CUDA_ERROR_ALREADY_MAPPED); // succeeds for a pointer of a device pool
	EQUALS(*(volatile unsigned *)address, 41);
	*(volatile unsigned *)address = 42;
}

CONFORM(a_pool_on_a_node_is_shared)
{
	CUmemPoolPtrExportData data;
	CUdeviceptr address = 0;
	char argument[256];
	int descriptor = -1;

	need_support(CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED);
	CUmemoryPool pool = make(CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0,
				 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	NEED(cuMemAllocFromPoolAsync(&address, 1 * MiB, pool, stream));
	NEED(cuStreamSynchronize(stream));
	*(volatile unsigned *)address = 41;
	NEED(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	NEED(cuMemPoolExportPointer(&data, address));
	int length = sprintf(argument, "%d ", dup(descriptor)); // without close-on-exec
	for (size_t i = 0; i < sizeof data; i++)
		length += sprintf(argument + length, "%02x", ((unsigned char *)&data)[i]);
	run_child("importer", argument);
	EQUALS(*(volatile unsigned *)address, 42);
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemPoolDestroy(pool));
	close(descriptor);
}

CONFORM(nodes_of_graphs)
{
	CUDA_MEM_ALLOC_NODE_PARAMS memory = {.bytesize = 64 * KiB,
					     .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
							   .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}}};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
				  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUDA_MEM_ALLOC_NODE_PARAMS found;
	CUgraphNode node, freed;
	CUgraph graph;

	need_support(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
	memory.poolProps.location.id = access.location.id = device;
	memory.accessDescs = &access;
	memory.accessDescCount = 1;
	NEED(cuGraphCreate(&graph, 0));
	NEED(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &memory));
	WORKS(cuGraphMemAllocNodeGetParams(node, &found));
	EQUALS(found.bytesize, 64 * KiB);
	EQUALS(found.dptr, memory.dptr);
	WORKS(cuGraphAddMemFreeNode(&freed, graph, &node, 1, memory.dptr));
	memory.bytesize = 0;
	FAILS(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &memory));
	WORKS(cuGraphDestroy(graph));
	// Graphs can allocate device and managed memory, but no host memory.
	static const struct {
		CUmemAllocationType type;
		CUmemLocationType where;
		CUresult result;
	} kinds[] = {
		{CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST, CUDA_ERROR_NOT_SUPPORTED},
		{CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST_NUMA, CUDA_ERROR_NOT_SUPPORTED},
		{CU_MEM_ALLOCATION_TYPE_MANAGED, CU_MEM_LOCATION_TYPE_NONE, CUDA_ERROR_NOT_SUPPORTED},
		{CU_MEM_ALLOCATION_TYPE_MANAGED, CU_MEM_LOCATION_TYPE_DEVICE, CUDA_SUCCESS},
	};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		CUDA_MEM_ALLOC_NODE_PARAMS params = {
			.bytesize = 64 * KiB,
			.poolProps = {.allocType = kinds[i].type, .location = {.type = kinds[i].where}}};
		NEED(cuGraphCreate(&graph, 0));
		GIVES(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params), kinds[i].result);
		WORKS(cuGraphDestroy(graph));
	}
}
