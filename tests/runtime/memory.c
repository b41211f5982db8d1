// Tests memory: device, host, managed, pitched, in stream order; pointers; variables.
#include "cudart.h"

CONFORM(device_memory)
{
	char *pointer = (char *)1, *other;
	size_t available, total;

	WORKS(cudaMalloc((void **)&pointer, 0));
	HOLDS(pointer == NULL);
	WORKS(cudaFree(NULL));
	WORKS(cudaMalloc((void **)&pointer, 1000));
	HOLDS((uintptr_t)pointer % 256 == 0);
	GIVES_LAST(cudaMalloc((void **)&other, (size_t)1 << 60), cudaErrorMemoryAllocation);
	GIVES_LAST(cudaMalloc(NULL, 10), cudaErrorInvalidValue);
	WORKS(cudaFree(pointer));
	GIVES_LAST(cudaFree(pointer), cudaErrorInvalidValue);
	GIVES_LAST(cudaFree((void *)0x1234), cudaErrorInvalidValue);
	WORKS(cudaMemGetInfo(&available, &total));
	WORKS(cudaMemGetInfo(NULL, NULL));
}

CONFORM(bytes_are_copied)
{
	char text[16] = "fifteen letters", got[16] = "", *device, *other;

	NEED(cudaMalloc((void **)&device, sizeof text));
	NEED(cudaMalloc((void **)&other, sizeof text));
	WORKS(cudaMemcpy(device, text, sizeof text, cudaMemcpyHostToDevice));
	WORKS(cudaMemcpy(other, device, sizeof text, cudaMemcpyDeviceToDevice));
	WORKS(cudaMemcpy(got, other, sizeof text, cudaMemcpyDeviceToHost));
	HOLDS(strcmp(got, text) == 0);
	memset(got, 0, sizeof got);
	WORKS(cudaMemcpy(got, device, sizeof text, cudaMemcpyDefault));
	HOLDS(strcmp(got, text) == 0);
	memset(got, 0, sizeof got);
	WORKS(cudaMemcpy(got, text, sizeof text, cudaMemcpyHostToHost));
	HOLDS(strcmp(got, text) == 0);
	WORKS(cudaMemset(device, 'a', 4));
	WORKS(cudaMemsetAsync(device + 4, 'b', 2, NULL));
	WORKS(cudaMemcpyAsync(got, device, sizeof text, cudaMemcpyDeviceToHost, NULL));
	WORKS(cudaStreamSynchronize(NULL));
	HOLDS(memcmp(got, "aaaabbn", 7) == 0);
	WORKS(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice));
	WORKS(cudaMemset(NULL, 0, 0));
	GIVES_LAST(cudaMemcpy(device, text, sizeof text, (enum cudaMemcpyKind)5), cudaErrorInvalidMemcpyDirection);
	GIVES_LAST(cudaMemcpy(text, device, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	GIVES_LAST(cudaMemcpy(NULL, text, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	GIVES_LAST(cudaMemset((void *)0x10, 0, 4), cudaErrorInvalidValue);
	WORKS(cudaFree(device));
	WORKS(cudaFree(other));
}

CONFORM(host_memory)
{
	int *host, *device, *registered = aligned_alloc(4096, 4096), value = 12;
	unsigned flags = 99;

	WORKS(cudaMallocHost((void **)&host, sizeof *host));
	WORKS(cudaFreeHost(host));
	WORKS(cudaFreeHost(NULL));
	WORKS(cudaHostAlloc((void **)&host, sizeof *host, cudaHostAllocMapped | cudaHostAllocPortable));
	WORKS(cudaHostGetDevicePointer((void **)&device, host, 0));
	HOLDS(device == host);
	WORKS(cudaHostGetFlags(&flags, host));
	EQUALS(flags & cudaHostAllocMapped, cudaHostAllocMapped);
	EQUALS(flags & cudaHostAllocPortable, cudaHostAllocPortable);
	WORKS(launch_with(store, 1, 1, (void *[]){&device, &value}, NULL));
	WORKS(cudaDeviceSynchronize());
	EQUALS(*host, 12);
	GIVES_LAST(cudaHostAlloc((void **)&device, 4, 0x1000), cudaErrorInvalidValue);
	GIVES_LAST(cudaFree(host), cudaErrorInvalidValue);
	WORKS(cudaFreeHost(host));
	GIVES_LAST(cudaFreeHost(&value), cudaErrorInvalidValue);
	WORKS(cudaHostRegister(registered, 4096, cudaHostRegisterDefault));
	GIVES_LAST(cudaHostRegister(registered, 4096, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
	WORKS(cudaHostUnregister(registered));
	GIVES_LAST(cudaHostUnregister(registered), cudaErrorHostMemoryNotRegistered);
	free(registered);
}

CONFORM(managed_memory)
{
	int *managed, value = 21;
	const struct cudaMemLocation here = {cudaMemLocationTypeDevice, 0};

	WORKS(cudaMallocManaged((void **)&managed, 4096, cudaMemAttachGlobal));
	*managed = 1;
	WORKS(launch_with(store, 1, 1, (void *[]){&managed, &value}, NULL));
	WORKS(cudaDeviceSynchronize());
	EQUALS(*managed, 21);
	WORKS(cudaMemAdvise(managed, 4096, cudaMemAdviseSetPreferredLocation, here));
	int preferred = -9;
	WORKS(cudaMemRangeGetAttribute(&preferred, sizeof preferred, cudaMemRangeAttributePreferredLocation, managed,
				       4096));
	EQUALS(preferred, 0);
	WORKS(cudaMemPrefetchAsync(managed, 4096, here, 0, NULL));
	WORKS(cudaDeviceSynchronize());
	void *none = managed;
	WORKS(cudaMallocManaged(&none, 0, cudaMemAttachGlobal));
	HOLDS(none == NULL);
	GIVES_LAST(cudaMallocManaged(&none, 4096, 0x99), cudaErrorInvalidValue);
	WORKS(cudaFree(managed));
}

CONFORM(pointer_attributes)
{
	struct cudaPointerAttributes attributes;
	int *device, *host, *managed, local;

	NEED(cudaMalloc((void **)&device, 4));
	NEED(cudaMallocHost((void **)&host, 4));
	NEED(cudaMallocManaged((void **)&managed, 4, cudaMemAttachGlobal));
	WORKS(cudaPointerGetAttributes(&attributes, device));
	EQUALS(attributes.type, cudaMemoryTypeDevice);
	EQUALS(attributes.device, 0);
	HOLDS(attributes.devicePointer == device);
	HOLDS(attributes.hostPointer == NULL);
	WORKS(cudaPointerGetAttributes(&attributes, host));
	EQUALS(attributes.type, cudaMemoryTypeHost);
	HOLDS(attributes.hostPointer == host);
	HOLDS(attributes.devicePointer == host);
	WORKS(cudaPointerGetAttributes(&attributes, managed));
	EQUALS(attributes.type, cudaMemoryTypeManaged);
	HOLDS(attributes.devicePointer == managed);
	HOLDS(attributes.hostPointer == managed);
	WORKS(cudaPointerGetAttributes(&attributes, &local));
	EQUALS(attributes.type, cudaMemoryTypeUnregistered);
	GIVES_LAST(cudaPointerGetAttributes(NULL, device), cudaErrorInvalidValue);
	WORKS(cudaFree(device));
	WORKS(cudaFreeHost(host));
	WORKS(cudaFree(managed));
}

CONFORM(variables)
{
	int numbers[4] = {0}, value = 0, *address = NULL, *to = need_ints(1);
	size_t size = 0;

	WORKS(cudaMemcpyFromSymbol(&value, symbol_counter(), sizeof value, 0, cudaMemcpyDeviceToHost));
	EQUALS(value, 7);
	WORKS(cudaGetSymbolSize(&size, symbol_numbers()));
	EQUALS(size, sizeof numbers);
	WORKS(cudaGetSymbolAddress((void **)&address, symbol_numbers()));
	EQUALS(read_int(address + 3), 4);
	value = 33;
	WORKS(cudaMemcpyToSymbol(symbol_numbers(), &value, sizeof value, 2 * sizeof value, cudaMemcpyHostToDevice));
	EQUALS(read_int(address + 2), 33);
	WORKS(cudaMemcpyFromSymbolAsync(numbers, symbol_numbers(), sizeof numbers, 0, cudaMemcpyDeviceToHost, NULL));
	WORKS(cudaStreamSynchronize(NULL));
	EQUALS(numbers[2], 33);
	value = 200;
	WORKS(cudaMemcpyToSymbolAsync(symbol_fixed(), &value, sizeof value, sizeof value, cudaMemcpyHostToDevice,
				      NULL));
	EQUALS(read_shared_counter(), 5);
	WORKS(launch_with(use_variables, 1, 1, (void *[]){&to}, NULL));
	EQUALS(read_int(to), 7 + 33 + 200 + 5);
	EQUALS(read_shared_counter(), 50);
	WORKS(cudaGetSymbolSize(&size, address_of_shared_counter()));
	EQUALS(size, sizeof(int));
	WORKS(cudaGetSymbolAddress((void **)&address, address_of_shared_counter()));
	HOLDS(address == address_of_shared_counter());
	value = 3;
	WORKS(cudaMemcpyToSymbol(symbol_numbers(), &value, sizeof value, 2 * sizeof value, cudaMemcpyHostToDevice));
	WORKS(cudaFree(to));
}

CONFORM(copies_beyond_a_variable_are_rejected)
{
	int numbers[5] = {0}, *address;
	size_t size;

	GIVES_LAST(cudaMemcpyToSymbol(symbol_numbers(), numbers, sizeof numbers, 0, cudaMemcpyHostToDevice),
		   cudaErrorInvalidValue);
	GIVES_LAST(cudaMemcpyToSymbol(symbol_numbers(), numbers, 4, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
	GIVES_LAST(cudaMemcpyFromSymbol(numbers, symbol_numbers(), 4, (size_t)-4, cudaMemcpyDeviceToHost),
		   cudaErrorInvalidValue);
	GIVES_LAST(cudaMemcpyToSymbol(&numbers, numbers, 4, 0, cudaMemcpyHostToDevice), cudaErrorInvalidSymbol);
	GIVES_LAST(cudaMemcpyToSymbol(symbol_numbers(), numbers, 4, 0, cudaMemcpyDeviceToHost),
		   cudaErrorInvalidMemcpyDirection);
	GIVES_LAST(cudaMemcpyFromSymbol(numbers, symbol_numbers(), 4, 0, cudaMemcpyHostToDevice),
		   cudaErrorInvalidMemcpyDirection);
	GIVES_LAST(cudaGetSymbolAddress((void **)&address, &numbers), cudaErrorInvalidSymbol);
	GIVES_LAST(cudaGetSymbolSize(&size, NULL), cudaErrorInvalidSymbol);
}

CONFORM(stream_ordered_memory)
{
	int *pointer = NULL, value = 4, least = -1;
	cudaStream_t stream;
	cudaMemPool_t pool, other;
	size_t threshold = 1 << 20;

	NEED(cudaStreamCreate(&stream));
	WORKS(cudaMallocAsync((void **)&pointer, 4096, stream));
	launch_store(pointer, value, stream);
	WORKS(cudaMemcpyAsync(&least, pointer, sizeof least, cudaMemcpyDeviceToHost, stream));
	WORKS(cudaFreeAsync(pointer, stream));
	WORKS(cudaStreamSynchronize(stream));
	EQUALS(least, 4);
	WORKS(cudaDeviceGetDefaultMemPool(&pool, 0));
	WORKS(cudaDeviceGetMemPool(&other, 0));
	HOLDS(pool == other);
	WORKS(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
	threshold = 0;
	WORKS(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
	EQUALS(threshold, 1 << 20);
	const struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
						    .location = {cudaMemLocationTypeDevice, 0}};
	WORKS(cudaMemPoolCreate(&other, &properties));
	WORKS(cudaMallocFromPoolAsync((void **)&pointer, 100, other, stream));
	WORKS(cudaFreeAsync(pointer, stream));
	WORKS(cudaStreamSynchronize(stream));
	WORKS(cudaMemPoolTrimTo(other, 0));
	size_t reserved = 9;
	WORKS(cudaMemPoolGetAttribute(other, cudaMemPoolAttrReservedMemCurrent, &reserved));
	EQUALS(reserved, 0);
	WORKS(cudaMemPoolDestroy(other));
	WORKS(cudaStreamDestroy(stream));
}

CONFORM(ipc_handle_needs_device_memory)
{
	cudaIpcMemHandle_t handle;
	int *pointer, local;

	NEED(cudaMalloc((void **)&pointer, 4));
	WORKS(cudaIpcGetMemHandle(&handle, pointer));
	FAILS(cudaIpcGetMemHandle(&handle, &local));
	cudaGetLastError();
	WORKS(cudaFree(pointer));
}

CONFORM(managed_memory_in_batches)
{
	int *managed, preferred = -9, advised = -9;
	size_t size = 1 << 21, sizes[2] = {sizeof preferred, sizeof advised}, index = 0;
	struct cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
	void *range, *values[2] = {&preferred, &advised};
	enum cudaMemRangeAttribute which[] = {cudaMemRangeAttributePreferredLocation, cudaMemRangeAttributeReadMostly};

	NEED(cudaMallocManaged((void **)&managed, size, cudaMemAttachGlobal));
	range = managed;
	WORKS(cudaMemPrefetchBatchAsync(&range, &size, 1, &here, &index, 1, 0, cudaStreamPerThread));
	WORKS(cudaStreamSynchronize(cudaStreamPerThread));
	WORKS(cudaMemAdvise(managed, size, cudaMemAdviseSetReadMostly, here));
	WORKS(cudaMemRangeGetAttributes(values, sizes, which, 2, managed, size));
	EQUALS(preferred, cudaInvalidDeviceId);
	EQUALS(advised, 1);
	WORKS(cudaFree(managed));
}
