// Tests virtual memory management: physical handles, reservations, mappings, access, sharing.
#include "conformance.h"

#define BLOCK (2 * MiB)

static CUmemAllocationProp properties(int handles)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = handles,
				     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
}

static CUmemGenericAllocationHandle make(size_t bytes, int handles)
{
	CUmemGenericAllocationHandle handle = 0;
	CUmemAllocationProp wanted = properties(handles);

	NEED(cuMemCreate(&handle, bytes, &wanted, 0));
	return handle;
}

static CUdeviceptr reserve(size_t bytes)
{
	CUdeviceptr address = 0;

	NEED(cuMemAddressReserve(&address, bytes, 0, 0, 0));
	return address;
}

static CUmemAccessDesc access_of(CUmemAccess_flags flags)
{
	return (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, .flags = flags};
}

static CUresult allow(CUdeviceptr address, size_t bytes, CUmemAccess_flags flags)
{
	CUmemAccessDesc wanted = access_of(flags);

	return cuMemSetAccess(address, bytes, &wanted, 1);
}

CONFORM(granularity)
{
	size_t least = 0, recommended = 0;

	need_context();
	CUmemAllocationProp wanted = properties(0);
	WORKS(cuMemGetAllocationGranularity(&least, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	WORKS(cuMemGetAllocationGranularity(&recommended, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	EQUALS(least, BLOCK);
	EQUALS(recommended, BLOCK);
	GIVES(cuMemGetAllocationGranularity(NULL, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemGetAllocationGranularity(&least, &wanted, 7), CUDA_ERROR_INVALID_VALUE);
	// Some properties pass the granularity query although cuMemCreate refuses them.
	CUmemGenericAllocationHandle handle;
	wanted.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT};
	WORKS(cuMemGetAllocationGranularity(&least, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	EQUALS(least, BLOCK);
	GIVES(cuMemCreate(&handle, BLOCK, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
	wanted = properties(0);
	wanted.type = CU_MEM_ALLOCATION_TYPE_MANAGED;
	WORKS(cuMemGetAllocationGranularity(&least, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	GIVES(cuMemCreate(&handle, BLOCK, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(invalid_handles)
{
	CUmemGenericAllocationHandle handle;

	need_context();
	CUmemAllocationProp wanted = properties(0);
	GIVES(cuMemCreate(&handle, BLOCK + 1, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemCreate(&handle, 4096, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemCreate(&handle, 0, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemCreate(&handle, BLOCK, &wanted, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemCreate(NULL, BLOCK, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemCreate(&handle, (size_t)1 << 50, &wanted, 0), CUDA_ERROR_OUT_OF_MEMORY);
	wanted.type = CU_MEM_ALLOCATION_TYPE_INVALID;
	GIVES(cuMemCreate(&handle, BLOCK, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
	wanted = properties(0);
	wanted.location.id = 99;
	FAILS(cuMemCreate(&handle, BLOCK, &wanted, 0));
	GIVES(cuMemRelease(0), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(physical_memory_comes_with_the_handle)
{
	CUmemGenericAllocationHandle handle;
	size_t before;

	need_context();
	before = memory_used();
	handle = make(10 * BLOCK, 0);
	EQUALS(memory_used() - before, 10 * BLOCK);
	WORKS(cuMemRelease(handle));
	EQUALS(memory_used(), before);
	GIVES(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(reservations)
{
	CUdeviceptr address, other;
	size_t before;

	need_context();
	before = memory_used();
	address = reserve(64 * GiB);
	EQUALS(memory_used(), before); // costs nothing
	EQUALS(address % BLOCK, 0);
	GIVES(cuMemAddressFree(address, 32 * GiB), CUDA_ERROR_INVALID_VALUE); // only a whole reservation can be freed
	GIVES(cuMemAddressFree(address + BLOCK, 64 * GiB - BLOCK), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemAddressFree(address, 64 * GiB));
	GIVES(cuMemAddressFree(address, 64 * GiB), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemAddressReserve(&other, BLOCK, GiB, 0, 0));
	EQUALS(other % GiB, 0);
	WORKS(cuMemAddressFree(other, BLOCK));
	GIVES(cuMemAddressReserve(&other, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAddressReserve(&other, 4096 + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAddressReserve(&other, BLOCK, 3 * MiB, 0, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAddressReserve(&other, BLOCK, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAddressReserve(NULL, BLOCK, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	address = reserve(8 * BLOCK);
	WORKS(cuMemAddressFree(address, 8 * BLOCK));
	WORKS(cuMemAddressReserve(&other, 8 * BLOCK, 0, address, 0));
	if (getenv("VIRGATE_SIM"))
		EQUALS(other, address); // drivers need not follow a hint, even if the address is free
	WORKS(cuMemAddressFree(other, 8 * BLOCK));
}

CONFORM(mapping_rules)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	unsigned word = 9;

	need_context();
	handle = make(4 * BLOCK, 0);
	address = reserve(8 * BLOCK);
	GIVES(cuMemMap(address, 2 * BLOCK, BLOCK, handle, 0), CUDA_ERROR_NOT_SUPPORTED); // the offset must be 0
	GIVES(cuMemMap(address + 4096, 4 * BLOCK, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemMap(address, 8 * BLOCK, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED); // the size exceeds the handle's
	GIVES(cuMemMap(address, BLOCK, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);     // less
	GIVES(cuMemMap(address, 4 * BLOCK, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemMap(address, 4 * BLOCK, 0, handle, 0));
	GIVES(cuMemMap(address, 4 * BLOCK, 0, handle, 0), CUDA_ERROR_INVALID_VALUE); // occupied
	FAILS(cuMemcpyDtoH(&word, address, 4));					     // the mapping has no access yet
	WORKS(allow(address, 4 * BLOCK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	WORKS(cuMemcpyDtoH(&word, address, 4));
	EQUALS(word, 0);					     // fresh
	GIVES(cuMemUnmap(address, BLOCK), CUDA_ERROR_INVALID_VALUE); // only a whole mapping can be unmapped
	GIVES(cuMemUnmap(address + BLOCK, 3 * BLOCK), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAddressFree(address, 8 * BLOCK), CUDA_ERROR_INVALID_VALUE); // still mapped
	GIVES(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemUnmap(address, 4 * BLOCK));
	WORKS(cuMemUnmap(address, 4 * BLOCK)); // nothing is mapped: no error
	WORKS(cuMemMap(address + 2 * BLOCK, 4 * BLOCK, 0, handle, 0));
	WORKS(cuMemUnmap(address + 2 * BLOCK, 4 * BLOCK));
	WORKS(cuMemRelease(handle));
	WORKS(cuMemAddressFree(address, 8 * BLOCK));
}

CONFORM(part_of_a_handle)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	need_context();
	handle = make(4 * BLOCK, 0);
	address = reserve(4 * BLOCK);
	GIVES(cuMemMap(address, 2 * BLOCK, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
	WORKS(cuMemRelease(handle));
	WORKS(cuMemAddressFree(address, 4 * BLOCK));
}

CONFORM(two_mappings_see_the_same_memory)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr first, second;
	unsigned word = 0;

	need_context();
	handle = make(BLOCK, 0);
	first = reserve(BLOCK);
	second = reserve(BLOCK);
	WORKS(cuMemMap(first, BLOCK, 0, handle, 0));
	WORKS(cuMemMap(second, BLOCK, 0, handle, 0));
	WORKS(allow(first, BLOCK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	WORKS(allow(second, BLOCK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	WORKS(cuMemsetD32(first, 0xfeed, 16));
	WORKS(cuMemcpyDtoH(&word, second + 60, 4));
	EQUALS(word, 0xfeed);
	WORKS(cuMemUnmap(first, BLOCK));
	WORKS(cuMemUnmap(second, BLOCK));
	WORKS(cuMemRelease(handle));
	WORKS(cuMemAddressFree(first, BLOCK));
	WORKS(cuMemAddressFree(second, BLOCK));
}

CONFORM(memory_lives_until_the_last_of_handle_and_mapping)
{
	CUmemGenericAllocationHandle handle, again = 0;
	CUdeviceptr address;
	size_t before;
	unsigned word = 0;

	need_context();
	before = memory_used();
	handle = make(4 * BLOCK, 0);
	address = reserve(4 * BLOCK);
	NEED(cuMemMap(address, 4 * BLOCK, 0, handle, 0));
	NEED(allow(address, 4 * BLOCK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	WORKS(cuMemRelease(handle));
	EQUALS(memory_used() - before, 4 * BLOCK); // released memory stays while it is mapped
	WORKS(cuMemsetD32(address, 77, 4));
	WORKS(cuMemRetainAllocationHandle(&again, (void *)address));
	EQUALS(again, handle);
	WORKS(cuMemRetainAllocationHandle(&again, (void *)(address + BLOCK + 5)));
	WORKS(cuMemUnmap(address, 4 * BLOCK));
	EQUALS(memory_used() - before, 4 * BLOCK); // retained twice
	NEED(cuMemMap(address, 4 * BLOCK, 0, again, 0));
	NEED(allow(address, 4 * BLOCK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	WORKS(cuMemcpyDtoH(&word, address, 4));
	EQUALS(word, 77);
	WORKS(cuMemUnmap(address, 4 * BLOCK));
	WORKS(cuMemRelease(again));
	EQUALS(memory_used() - before, 4 * BLOCK);
	WORKS(cuMemRelease(again));
	EQUALS(memory_used(), before);
	GIVES(cuMemRetainAllocationHandle(&again, (void *)address), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemAddressFree(address, 4 * BLOCK));
}

CONFORM(access_of_mappings)
{
	CUmemGenericAllocationHandle handles[2];
	CUdeviceptr address;
	unsigned long long flags = 99;

	need_context();
	address = reserve(2 * BLOCK);
	CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	GIVES(allow(address, BLOCK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_INVALID_VALUE); // nothing mapped
	for (int i = 0; i < 2; i++) {
		handles[i] = make(BLOCK, 0);
		NEED(cuMemMap(address + i * BLOCK, BLOCK, 0, handles[i], 0));
		WORKS(cuMemRelease(handles[i]));
	}
	WORKS(cuMemGetAccess(&flags, &here, address));
	EQUALS(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	WORKS(allow(address, 2 * BLOCK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)); // one call for both mappings
	WORKS(cuMemGetAccess(&flags, &here, address + BLOCK));
	EQUALS(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	WORKS(allow(address, BLOCK, CU_MEM_ACCESS_FLAGS_PROT_READ));
	WORKS(cuMemGetAccess(&flags, &here, address));
	EQUALS(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
	GIVES(allow(address, BLOCK / 2, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_INVALID_VALUE);
	GIVES(allow(address, BLOCK, 2), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemUnmap(address, 2 * BLOCK)); // one call unmaps two whole mappings
	// One call can unmap adjacent mappings of several reservations, too.
	CUdeviceptr places[2];
	NEED(cuMemAddressReserve(&places[0], BLOCK, 0, 0, 0));
	NEED(cuMemAddressReserve(&places[1], BLOCK, BLOCK, places[0] + BLOCK, 0));
	for (int i = 0; i < 2; i++) {
		handles[i] = make(BLOCK, 0);
		NEED(cuMemMap(places[i], BLOCK, 0, handles[i], 0));
		WORKS(cuMemRelease(handles[i]));
	}
	if (places[1] == places[0] + BLOCK)
		WORKS(allow(places[0], 2 * BLOCK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	for (int i = 0; i < 2; i++) {
		WORKS(cuMemUnmap(places[i], BLOCK));
		WORKS(cuMemAddressFree(places[i], BLOCK));
	}
	WORKS(cuMemAddressFree(address, 2 * BLOCK));
}

static CUdeviceptr map_one(CUmemAccess_flags flags)
{
	CUmemGenericAllocationHandle handle = make(BLOCK, 0);
	CUdeviceptr address = reserve(BLOCK);

	NEED(cuMemMap(address, BLOCK, 0, handle, 0));
	NEED(allow(address, BLOCK, flags));
	return address;
}

static CUresult run(const char *kernel, CUdeviceptr first, CUdeviceptr second)
{
	CUfunction function = need_function(need_module(ptx_basic), kernel);
	void *arguments[] = {&first, &second};

	NEED(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	return cuCtxSynchronize();
}

CHILD(read_only)
{
	CUdeviceptr address, output;

	need_context();
	address = map_one(CU_MEM_ACCESS_FLAGS_PROT_READ);
	NEED(cuMemAlloc(&output, 4));
	WORKS(run("load", address, output));
	// the driver refuses the call; a kernel that writes there would fault
	GIVES(cuMemsetD8(address, 7, 1), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuCtxSynchronize());
	GIVES(run("store", address, 5), CUDA_ERROR_ILLEGAL_ADDRESS);
}

CHILD(unmapped)
{
	CUdeviceptr address;

	need_context();
	address = map_one(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	WORKS(run("store", address, 5));
	WORKS(cuMemUnmap(address, BLOCK));
	GIVES(run("store", address, 5), CUDA_ERROR_ILLEGAL_ADDRESS);
}

CHILD(no_access)
{
	CUdeviceptr address;

	need_context();
	address = reserve(BLOCK);
	NEED(cuMemMap(address, BLOCK, 0, make(BLOCK, 0), 0));
	GIVES(run("store", address, 5), CUDA_ERROR_ILLEGAL_ADDRESS);
}

CONFORM(writes_to_read_only_mappings_fault)
{
	run_child("read_only", NULL);
}

CONFORM(unmapped_memory_faults)
{
	run_child("unmapped", NULL);
}

CONFORM(mappings_without_access_fault)
{
	run_child("no_access", NULL);
}

CONFORM(pointer_attributes_of_mappings)
{
	CUdeviceptr address, start = 0;
	CUmemorytype type = 0;
	size_t size = 0;
	unsigned mapped = 9;
	CUmemAllocationProp found;

	need_context();
	address = map_one(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	WORKS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
	EQUALS(type, CU_MEMORYTYPE_DEVICE);
	WORKS(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, address));
	EQUALS(mapped & 0xff, 1);
	WORKS(cuMemGetAddressRange(&start, &size, address + 5));
	EQUALS(start, address);
	EQUALS(size, BLOCK);
	CUmemGenericAllocationHandle handle = 0;
	NEED(cuMemRetainAllocationHandle(&handle, (void *)address));
	memset(&found, 0xff, sizeof found);
	WORKS(cuMemGetAllocationPropertiesFromHandle(&found, handle));
	EQUALS(found.type, CU_MEM_ALLOCATION_TYPE_PINNED);
	EQUALS(found.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
	EQUALS(found.location.id, device);
	WORKS(cuMemRelease(handle));
	WORKS(cuMemUnmap(address, BLOCK));
	WORKS(cuMemRelease(handle));
	// An address that is only reserved is no memory.
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
					    CU_POINTER_ATTRIBUTE_MAPPED};
	int ordinal = 9;
	mapped = 0;
	void *values[] = {&type, &ordinal, &mapped};
	WORKS(cuPointerGetAttributes(3, attributes, values, address));
	EQUALS(type, 0);
	EQUALS(ordinal, CU_DEVICE_INVALID);
	EQUALS(mapped, 0);
	GIVES(cuMemGetAddressRange(&start, &size, address), CUDA_ERROR_NOT_FOUND);
	WORKS(cuMemAddressFree(address, BLOCK));
}

static unsigned long long number_of(CUpointer_attribute attribute, CUdeviceptr address)
{
	unsigned long long value = 0; // the driver writes only four bytes of some attributes

	WORKS(cuPointerGetAttribute(&value, attribute, address));
	return value;
}

// Compares two adjacent handles in a larger reservation with memory of cuMemAlloc.
CONFORM(attributes_of_neighbouring_handles)
{
	CUmemGenericAllocationHandle handles[2];
	CUdeviceptr base = 0, address, start = 0;
	CUcontext owner = (CUcontext)1;
	CUipcMemHandle ipc;
	size_t size = 0;
	void *host = NULL;
	unsigned one = 1;
	unsigned long long identities[3];

	need_context();
	base = reserve(8 * BLOCK);
	address = base + BLOCK;
	handles[0] = make(2 * BLOCK, 0);
	handles[1] = make(BLOCK, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	NEED(cuMemMap(address, 2 * BLOCK, 0, handles[0], 0));
	NEED(cuMemMap(address + 2 * BLOCK, BLOCK, 0, handles[1], 0));
	NEED(allow(address, 3 * BLOCK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	WORKS(cuMemsetD8(address, 1, 3 * BLOCK)); // across both
	WORKS(cuCtxSynchronize());		  // cuMemUnmap below does not wait for the memset
	// The answers about an address describe the mapping of one handle, not the neighbouring one.
	WORKS(cuMemGetAddressRange(&start, &size, address + 2 * BLOCK - 1));
	EQUALS(start, address);
	EQUALS(size, 2 * BLOCK);
	WORKS(cuMemGetAddressRange(&start, &size, address + 2 * BLOCK));
	EQUALS(start, address + 2 * BLOCK);
	EQUALS(size, BLOCK);
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, address + BLOCK), address);
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, address + BLOCK), 2 * BLOCK);
	// The range attributes describe the whole reservation.
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 2 * BLOCK), base);
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address), 8 * BLOCK);
	// The memory belongs to no context, and legacy IPC cannot share it.
	WORKS(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address));
	HOLDS(owner == NULL);
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address) & 0xff, 0);
	FAILS(cuIpcGetMemHandle(&ipc, address));
	FAILS(cuIpcGetMemHandle(&ipc, address + 2 * BLOCK));
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address), 0);
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address + 2 * BLOCK),
	       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address), 0);
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), device);
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address + 5), address + 5);
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_IS_MANAGED, address) & 0xff, 0);
	FAILS(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address));
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address) & 0xff, 0);
	GIVES(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address), CUDA_ERROR_NOT_SUPPORTED);
	EQUALS(number_of(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, address), CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
	// Each handle is a separate allocation, even at an address that another handle had.
	for (int i = 0; i < 2; i++)
		identities[i] = number_of(CU_POINTER_ATTRIBUTE_BUFFER_ID, address + 2 * i * BLOCK);
	HOLDS(identities[0] != identities[1]);
	WORKS(cuMemUnmap(address + 2 * BLOCK, BLOCK));
	WORKS(cuMemRelease(handles[1]));
	handles[1] = make(BLOCK, 0);
	NEED(cuMemMap(address + 2 * BLOCK, BLOCK, 0, handles[1], 0));
	identities[2] = number_of(CU_POINTER_ATTRIBUTE_BUFFER_ID, address + 2 * BLOCK);
	HOLDS(identities[2] != identities[0] && identities[2] != identities[1]);
	// The range attributes describe reserved addresses without a mapping, too.
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
					    CU_POINTER_ATTRIBUTE_MAPPED};
	int mapped = 9;
	void *values[] = {&start, &size, &mapped};
	start = size = 0;
	WORKS(cuPointerGetAttributes(3, attributes, values, base + 6 * BLOCK));
	EQUALS(start, base);
	EQUALS(size, 8 * BLOCK);
	EQUALS(mapped & 0xff, 0);
	WORKS(cuMemUnmap(address, 3 * BLOCK));
	for (int i = 0; i < 2; i++)
		WORKS(cuMemRelease(handles[i]));
	WORKS(cuMemAddressFree(base, 8 * BLOCK));
}

CONFORM(descriptors)
{
	CUmemGenericAllocationHandle handle, imported = 0, plain;
	int descriptor = -1, again;
	size_t before;
	char link[64], target[128] = "";

	need_context();
	before = memory_used();
	plain = make(BLOCK, 0);
	GIVES(cuMemExportToShareableHandle(&descriptor, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	      CUDA_ERROR_INVALID_VALUE); // the handle type was not requested at the creation
	WORKS(cuMemRelease(plain));
	handle = make(BLOCK, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	WORKS(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	HOLDS(descriptor >= 0);
	snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
	HOLDS(readlink(link, target, sizeof target - 1) > 0);
	// The pointer argument holds the descriptor itself.
	WORKS(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	COSTS(memory_used() - before, BLOCK, BLOCK); // the import is the same memory
	GIVES(cuMemExportToShareableHandle(&again, imported, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	      CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemRelease(handle));
	COSTS(memory_used() - before, BLOCK, BLOCK);
	WORKS(cuMemRelease(imported));
	COSTS(memory_used() - before, BLOCK, BLOCK); // the descriptor keeps the memory, too
	close(descriptor);
	EQUALS(memory_used(), before);
	FAILS(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	FAILS(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	FAILS(cuMemImportFromShareableHandle(&imported, &descriptor, CU_MEM_HANDLE_TYPE_WIN32));
}

CONFORM(handles_in_host_memory)
{
	CUmemGenericAllocationHandle handle = 0;
	size_t before, granularity = 0;
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0}};
	int supported = 0;

	need_context();
	NEED(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
				  device));
	if (!supported)
		SKIP("no handles in host memory here");
	before = memory_used();
	WORKS(cuMemGetAllocationGranularity(&granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	HOLDS(granularity > 0);
	WORKS(cuMemCreate(&handle, 4 * BLOCK, &wanted, 0));
	EQUALS(memory_used(), before);
	WORKS(cuMemRelease(handle));
	wanted.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	GIVES(cuMemCreate(&handle, 4 * BLOCK, &wanted, 0), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(a_handle_in_host_memory_is_used_from_both_sides)
{
	CUmemGenericAllocationHandle handle = 0;
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {.type = CU_MEM_LOCATION_TYPE_HOST}};
	CUdeviceptr address = 0;
	size_t granularity = 0;
	int supported = 0;

	need_context();
	NEED(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
	if (!supported)
		SKIP("no handles in host memory here");
	NEED(cuMemGetAllocationGranularity(&granularity, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	GIVES(cuMemCreate(&handle, granularity, &wanted, 0), CUDA_ERROR_INVALID_VALUE); // not shareable
	wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
	NEED(cuMemCreate(&handle, granularity, &wanted, 0));
	NEED(cuMemAddressReserve(&address, granularity, 0, 0, 0));
	NEED(cuMemMap(address, granularity, 0, handle, 0));
	CUmemAccessDesc both[] = {
		{.location = {.type = CU_MEM_LOCATION_TYPE_HOST}, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
		{.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
		 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
	NEED(cuMemSetAccess(address, granularity, both, 2));
	*(volatile unsigned *)address = 5;
	NEED(cuMemsetD32(address + 4, 7, 1));
	WORKS(cuCtxSynchronize());
	EQUALS(((volatile unsigned *)address)[0], 5);
	EQUALS(((volatile unsigned *)address)[1], 7);
	WORKS(cuMemUnmap(address, granularity));
	WORKS(cuMemRelease(handle));
	WORKS(cuMemAddressFree(address, granularity));
}
