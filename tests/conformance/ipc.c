// Tests sharing between processes: IPC memory and event handles, descriptors of physical memory, shared pools.
#include "conformance.h"

#include <fcntl.h>

// Converts a handle to hexadecimal text, in which form the child gets it through exec.
static char *to_text(const void *bytes, size_t size)
{
	static char text[8192];

	for (size_t i = 0; i < size; i++)
		sprintf(text + 2 * i, "%02x", ((const unsigned char *)bytes)[i]);
	return text;
}

static void from_text(const char *text, void *ret_bytes, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned byte = 0;
		sscanf(text + 2 * i, "%2x", &byte);
		((unsigned char *)ret_bytes)[i] = byte;
	}
}

CHILD(open_memory)
{
	CUipcMemHandle handle;
	CUdeviceptr address = 0, again = 0;
	unsigned word = 0;
	size_t size = 0, before;

	need_context();
	from_text(argument, &handle, sizeof handle);
	before = memory_used();
	NEED(cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	WORKS(cuMemGetAddressRange(NULL, &size, address));
	EQUALS(memory_used(), before); // the exporter allocated the memory and is charged for it
	WORKS(cuMemcpyDtoH(&word, address, 4));
	EQUALS(word, 0xabcd);
	HOLDS(size >= 8 * MiB);
	WORKS(cuMemsetD32(address, 0x1234, 1));
	WORKS(cuCtxSynchronize());
	if (cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS) {
		EQUALS(again, address); // a second open gives the same mapping, and the driver counts both
		WORKS(cuIpcCloseMemHandle(again));
	}
	GIVES(cuMemFree(address), CUDA_ERROR_INVALID_VALUE); // imported memory is closed, not freed
	WORKS(cuIpcCloseMemHandle(address));
	GIVES(cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_VALUE);
	memset(&handle, 0, sizeof handle);
	FAILS(cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

CONFORM(memory_handles)
{
	CUdeviceptr address, opened;
	CUipcMemHandle handle, second;
	unsigned word = 0;

	need_context();
	NEED(cuMemAlloc(&address, 8 * MiB));
	NEED(cuMemsetD32(address, 0xabcd, 16));
	NEED(cuCtxSynchronize());
	NEED(cuIpcGetMemHandle(&handle, address));
	// a handle made from an address inside an allocation stands for the whole allocation
	WORKS(cuIpcGetMemHandle(&second, address + MiB));
	GIVES(cuIpcGetMemHandle(&second, 0x1000), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuIpcCloseMemHandle(address), CUDA_ERROR_INVALID_VALUE);
	run_child("open_memory", to_text(&handle, sizeof handle));
	WORKS(cuMemcpyDtoH(&word, address, 4));
	EQUALS(word, 0x1234);
	WORKS(cuMemFree(address));
}

CONFORM(memory_without_handles)
{
	CUdeviceptr address;
	CUipcMemHandle handle;
	CUmemGenericAllocationHandle physical;
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	need_context();
	NEED(cuMemAllocAsync(&address, 4096, NULL));
	NEED(cuStreamSynchronize(NULL));
	GIVES(cuIpcGetMemHandle(&handle, address), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemFreeAsync(address, NULL));
	WORKS(cuStreamSynchronize(NULL));
	wanted.location.id = device;
	access.location = wanted.location;
	NEED(cuMemCreate(&physical, 2 * MiB, &wanted, 0));
	NEED(cuMemAddressReserve(&address, 2 * MiB, 0, 0, 0));
	NEED(cuMemMap(address, 2 * MiB, 0, physical, 0));
	NEED(cuMemSetAccess(address, 2 * MiB, &access, 1));
	GIVES(cuIpcGetMemHandle(&handle, address), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemUnmap(address, 2 * MiB));
	WORKS(cuMemRelease(physical));
	WORKS(cuMemAddressFree(address, 2 * MiB));
}

CHILD(wait_for_event)
{
	CUipcEventHandle handle;
	CUevent event = NULL;

	need_context();
	from_text(argument, &handle, sizeof handle);
	NEED(cuIpcOpenEventHandle(&event, handle));
	WORKS(cuStreamWaitEvent(NULL, event, 0));
	WORKS(cuEventSynchronize(event));
	WORKS(cuEventQuery(event));
	WORKS(cuEventDestroy(event));
}

CONFORM(event_handles)
{
	CUevent event, plain, opened;
	CUipcEventHandle handle;

	need_context();
	NEED(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
	GIVES(cuIpcGetEventHandle(&handle, plain), CUDA_ERROR_INVALID_HANDLE);
	WORKS(cuEventDestroy(plain));
	NEED(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	NEED(cuEventRecord(event, NULL));
	NEED(cuIpcGetEventHandle(&handle, event));
	GIVES(cuIpcOpenEventHandle(&opened, handle), CUDA_ERROR_INVALID_CONTEXT);
	run_child("wait_for_event", to_text(&handle, sizeof handle));
	WORKS(cuEventDestroy(event));
}

CHILD(map_descriptor)
{
	CUmemGenericAllocationHandle handle = 0;
	CUdeviceptr address;
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
				  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	unsigned word = 0;
	size_t before;
	int descriptor = atoi(argument);

	need_context();
	access.location.id = device;
	before = memory_used();
	NEED(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)descriptor,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(descriptor);
	EQUALS(memory_used(), before);
	NEED(cuMemAddressReserve(&address, 4 * MiB, 0, 0, 0));
	NEED(cuMemMap(address, 4 * MiB, 0, handle, 0));
	WORKS(cuMemSetAccess(address, 4 * MiB, &access, 1)); // the importer chooses the access, not the exporter
	WORKS(cuMemcpyDtoH(&word, address, 4));
	EQUALS(word, 0x77);
	WORKS(cuMemsetD32(address, 0x88, 1));
	WORKS(cuCtxSynchronize());
	WORKS(cuMemUnmap(address, 4 * MiB));
	WORKS(cuMemRelease(handle));
}

CONFORM(descriptors_of_physical_memory)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	int descriptor = -1;
	unsigned word = 0;
	char number[16];

	need_context();
	wanted.location.id = device;
	access.location = wanted.location;
	NEED(cuMemCreate(&handle, 4 * MiB, &wanted, 0));
	NEED(cuMemAddressReserve(&address, 4 * MiB, 0, 0, 0));
	NEED(cuMemMap(address, 4 * MiB, 0, handle, 0));
	NEED(cuMemSetAccess(address, 4 * MiB, &access, 1));
	NEED(cuMemsetD32(address, 0x77, 4));
	NEED(cuCtxSynchronize());
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	NEED(cuMemSetAccess(address, 4 * MiB, &access, 1));
	NEED(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	fcntl(descriptor, F_SETFD, 0); // through exec
	sprintf(number, "%d", descriptor);
	run_child("map_descriptor", number);
	close(descriptor);
	WORKS(cuMemcpyDtoH(&word, address, 4));
	EQUALS(word, 0x88);
	WORKS(cuMemUnmap(address, 4 * MiB));
	WORKS(cuMemRelease(handle));
	WORKS(cuMemAddressFree(address, 4 * MiB));
}

struct pool_parts {
	int descriptor;
	CUmemPoolPtrExportData data;
};

CHILD(import_pool)
{
	struct pool_parts parts;
	CUmemoryPool pool = NULL;
	CUdeviceptr address = 0, again = 0, fresh;
	CUstream stream;
	unsigned word = 0;

	need_context();
	from_text(argument, &parts, sizeof parts);
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)parts.descriptor,
						CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	WORKS(cuMemPoolSetAccess(pool, &access, 1));
	NEED(cuMemPoolImportPointer(&address, pool, &parts.data));
	WORKS(cuMemcpyDtoH(&word, address, 4));
	EQUALS(word, 0x55);
	FAILS(cuMemAllocFromPoolAsync(&fresh, 4096, pool, stream)); // an imported pool does not allocate
	WORKS(cuMemPoolImportPointer(&again, pool, &parts.data));   // once more
	word = 0;
	WORKS(cuMemcpyDtoH(&word, again, 4));
	EQUALS(word, 0x55);
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemPoolDestroy(pool));
}

CONFORM(shared_pools)
{
	CUmemoryPool pool;
	CUdeviceptr address;
	CUstream stream;
	struct pool_parts parts;
	CUmemPoolProps wanted = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

	need_context();
	wanted.location.id = device;
	memset(&parts, 0, sizeof parts);
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuMemPoolCreate(&pool, &wanted));
	NEED(cuMemAllocFromPoolAsync(&address, 4 * MiB, pool, stream));
	NEED(cuMemsetD32Async(address, 0x55, 4, stream));
	NEED(cuStreamSynchronize(stream));
	NEED(cuMemPoolExportToShareableHandle(&parts.descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	NEED(cuMemPoolExportPointer(&parts.data, address));
	fcntl(parts.descriptor, F_SETFD, 0);
	run_child("import_pool", to_text(&parts, sizeof parts));
	close(parts.descriptor);
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemPoolDestroy(pool));
	WORKS(cuStreamDestroy(stream));
}
