// Tests the import of a shared pool: repeated imports, pointers, and invalid data.
#include "conformance.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define BY_DESCRIPTOR CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static CUmemoryPool pool;
static CUdeviceptr address; // the address of 1 MiB in the pool
static CUstream stream;
static int descriptor;
static CUmemPoolPtrExportData data;

static void share(void)
{
	CUmemPoolProps wanted = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = BY_DESCRIPTOR,
				 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

	need_context();
	wanted.location.id = device;
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuMemPoolCreate(&pool, &wanted));
	NEED(cuMemAllocFromPoolAsync(&address, MiB, pool, stream));
	NEED(cuMemsetD32Async(address, 0x55, 4, stream));
	NEED(cuStreamSynchronize(stream));
	NEED(cuMemPoolExportToShareableHandle(&descriptor, pool, BY_DESCRIPTOR, 0));
	NEED(cuMemPoolExportPointer(&data, address));
}

static void unshare(void)
{
	close(descriptor);
	WORKS(cuMemFreeAsync(address, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemPoolDestroy(pool));
	WORKS(cuStreamDestroy(stream));
}

static CUmemoryPool import(void)
{
	CUmemoryPool imported = NULL;

	NEED(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor, BY_DESCRIPTOR, 0));
	return imported;
}

static CUdeviceptr import_pointer(CUmemoryPool imported)
{
	CUdeviceptr opened = 0;

	WORKS(cuMemPoolImportPointer(&opened, imported, &data));
	return opened;
}

static void free_pointer(CUdeviceptr opened)
{
	WORKS(cuMemFreeAsync(opened, stream));
	WORKS(cuStreamSynchronize(stream));
}

static unsigned word_at(CUdeviceptr from)
{
	unsigned word = 0;

	WORKS(cuMemcpyDtoH(&word, from, 4));
	return word;
}

// Importing a pointer again gives the same import, and a single free ends it.
CONFORM(an_exported_pointer_is_imported_once)
{
	unsigned word = 0;

	share();
	CUmemoryPool imported = import();
	CUdeviceptr first = import_pointer(imported), second = import_pointer(imported);
	HOLDS(first != address);
	HOLDS(second == first);
	free_pointer(first);
	GIVES(cuMemcpyDtoH(&word, second, 4), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemFreeAsync(second, stream), CUDA_ERROR_INVALID_VALUE);
	EQUALS(word_at(address), 0x55); // the exporter's memory is not freed
	second = import_pointer(imported);
	HOLDS(second == first);
	EQUALS(word_at(second), 0x55);
	free_pointer(second);
	WORKS(cuMemPoolDestroy(imported));
	unshare();
}

static atomic_bool let_go;

static void CUDA_CB hold_up(void *unused)
{
	for (int i = 0; i < 5000 && !let_go; i++)
		usleep(1000);
}

// Imports a pointer again while the free of its first import waits for a stream. That free must not end the second
// import.
CONFORM(a_pointer_is_imported_while_its_free_is_queued)
{
	CUstream other;
	unsigned word = 0;

	share();
	NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CUmemoryPool imported = import();
	CUdeviceptr first = import_pointer(imported);
	WORKS(cuLaunchHostFunc(stream, hold_up, NULL));
	WORKS(cuMemFreeAsync(first, stream));
	CUdeviceptr second = import_pointer(imported);
	HOLDS(second == first);
	WORKS(cuMemcpyDtoHAsync(&word, second, 4, other));
	WORKS(cuStreamSynchronize(other));
	EQUALS(word, 0x55);
	let_go = true;
	WORKS(cuStreamSynchronize(stream));
	word = 0;
	WORKS(cuMemcpyDtoHAsync(&word, second, 4, other));
	WORKS(cuStreamSynchronize(other));
	EQUALS(word, 0x55);
	free_pointer(second);
	WORKS(cuStreamDestroy(other));
	WORKS(cuMemPoolDestroy(imported));
	unshare();
}

// Importing a pool again gives the same pool. Each import needs a destroy. A pool with an imported pointer cannot be
// destroyed.
CONFORM(a_pool_that_is_imported_again)
{
	share();
	CUmemoryPool imported = import();
	HOLDS(imported != pool);
	HOLDS(import() == imported);
	CUdeviceptr opened = import_pointer(imported);
	GIVES(cuMemPoolDestroy(imported), CUDA_ERROR_INVALID_VALUE);
	EQUALS(word_at(opened), 0x55);
	free_pointer(opened);
	WORKS(cuMemPoolDestroy(imported));
	opened = import_pointer(imported);
	EQUALS(word_at(opened), 0x55);
	HOLDS(import() == imported);
	free_pointer(opened);
	WORKS(cuMemPoolDestroy(imported));
	WORKS(cuMemPoolDestroy(imported));
	unshare();
}

CONFORM(imported_pool_refuses_allocation_and_export)
{
	CUmemPoolPtrExportData again;
	CUdeviceptr fresh = 0;
	cuuint64_t bytes;
	int copy = -1;

	share();
	CUmemoryPool imported = import();
	CUdeviceptr opened = import_pointer(imported);
	GIVES(cuMemAllocFromPoolAsync(&fresh, 512, imported, stream), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemPoolExportToShareableHandle(&copy, imported, BY_DESCRIPTOR, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemPoolExportPointer(&again, opened), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemPoolImportPointer(&fresh, pool, &data), CUDA_ERROR_INVALID_VALUE);
	for (int i = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES; i <= CU_MEMPOOL_ATTR_USED_MEM_HIGH; i++) {
		bytes = 1;
		GIVES(cuMemPoolGetAttribute(imported, (CUmemPool_attribute)i, &bytes), CUDA_ERROR_INVALID_VALUE);
		GIVES(cuMemPoolSetAttribute(imported, (CUmemPool_attribute)i, &bytes), CUDA_ERROR_INVALID_VALUE);
	}
	GIVES(cuMemPoolTrimTo(imported, 0), CUDA_ERROR_INVALID_VALUE);
	free_pointer(opened);
	WORKS(cuMemPoolDestroy(imported));
	unshare();
}

// New memory at an old address has other export data. An importer gets the same address for both.
CONFORM(export_data_identifies_one_allocation)
{
	CUmemPoolPtrExportData second = {0}; // the driver does not write all of the data

	share();
	NEED(cuMemPoolExportPointer(&second, address));
	HOLDS(memcmp(&data, &second, sizeof data) == 0);
	CUmemoryPool imported = import();
	CUdeviceptr before = address, opened = import_pointer(imported);
	free_pointer(address);
	GIVES(cuMemPoolExportPointer(&second, address), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemAllocFromPoolAsync(&address, MiB, pool, stream));
	NEED(cuStreamSynchronize(stream));
	NEED(cuMemPoolExportPointer(&second, address));
	if (address == before) {
		HOLDS(memcmp(&data, &second, sizeof data) != 0);
		data = second;
		HOLDS(import_pointer(imported) == opened);
	}
	free_pointer(opened);
	WORKS(cuMemPoolDestroy(imported));
	unshare();
}

static void is_none(int other, CUresult want)
{
	CUmemGenericAllocationHandle handle;
	CUmemoryPool imported;

	GIVES(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)other, BY_DESCRIPTOR, 0), want);
	GIVES(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)other, BY_DESCRIPTOR), want);
}

CONFORM(invalid_descriptors_are_not_imported)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), memory = memfd_create("memory", MFD_CLOEXEC), ends[2];

	need_context();
	HOLDS(null >= 0 && memory >= 0 && pipe2(ends, O_CLOEXEC) == 0);
	is_none(null, CUDA_ERROR_UNKNOWN);
	is_none(memory, CUDA_ERROR_UNKNOWN);
	is_none(ends[0], CUDA_ERROR_UNKNOWN);
	is_none(-1, CUDA_ERROR_UNKNOWN);
	is_none(999, CUDA_ERROR_UNKNOWN);
	close(null);
	close(memory);
	close(ends[0]);
	close(ends[1]);
	WORKS(cuCtxSynchronize());
}

CONFORM(a_pool_is_no_memory_and_memory_no_pool)
{
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .requestedHandleTypes = BY_DESCRIPTOR,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle, other;
	CUmemoryPool imported;
	int memory = -1;

	share();
	wanted.location.id = device;
	NEED(cuMemCreate(&handle, 2 * MiB, &wanted, 0));
	NEED(cuMemExportToShareableHandle(&memory, handle, BY_DESCRIPTOR, 0));
	GIVES(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)memory, BY_DESCRIPTOR, 0),
	      CUDA_ERROR_NOT_SUPPORTED);
	GIVES(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)descriptor, BY_DESCRIPTOR),
	      CUDA_ERROR_NOT_SUPPORTED);
	close(memory);
	WORKS(cuMemRelease(handle));
	unshare();
}
