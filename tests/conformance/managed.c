// Tests managed memory, in small sizes: attributes, access from host and device, advice and prefetch.
#include "conformance.h"

CONFORM(allocation)
{
	CUdeviceptr address = 0;
	unsigned managed = 0x99999999;
	CUmemorytype type = 0;
	void *host = NULL;

	need_context();
	GIVES(cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAllocManaged(&address, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAllocManaged(&address, 4096, CU_MEM_ATTACH_SINGLE), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAllocManaged(NULL, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemAllocManaged(&address, 4 * MiB, CU_MEM_ATTACH_GLOBAL));
	WORKS(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
	EQUALS(managed, 1);
	WORKS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
	EQUALS(type, CU_MEMORYTYPE_DEVICE);
	WORKS(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address));
	HOLDS(host == (void *)address);
	WORKS(cuMemFree(address));
	GIVES(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(both_sides_see_it)
{
	CUdeviceptr address = 0;
	CUfunction store;
	unsigned value = 11;

	need_context();
	NEED(cuMemAllocManaged(&address, 64 * KiB, CU_MEM_ATTACH_GLOBAL));
	volatile unsigned *host = (volatile unsigned *)address;
	EQUALS(host[0], 0);
	host[1] = 5;
	store = need_function(need_module(ptx_basic), "store");
	void *arguments[] = {&address, &value};
	NEED(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	WORKS(cuCtxSynchronize());
	EQUALS(host[0], 11);
	EQUALS(host[1], 5);
	WORKS(cuMemsetD32(address, 9, 4));
	WORKS(cuCtxSynchronize());
	EQUALS(host[1], 9);
	WORKS(cuMemFree(address));
}

CONFORM(advice_and_prefetch)
{
	CUdeviceptr address = 0, plain = 0;
	int value = 9, concurrent = 0;

	need_context();
	NEED(cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device));
	if (!concurrent)
		SKIP("no concurrent managed access here");
	CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};
	NEED(cuMemAllocManaged(&address, 4 * MiB, CU_MEM_ATTACH_GLOBAL));
	WORKS(cuMemAdvise(address, 4 * MiB, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
	WORKS(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address, 4 * MiB));
	EQUALS(value, 1);
	WORKS(cuCtxSetCurrent(NULL));
	GIVES(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address, 4 * MiB),
	      CUDA_ERROR_INVALID_CONTEXT);
	WORKS(cuCtxSetCurrent(context));
	WORKS(cuMemAdvise(address, 4 * MiB, CU_MEM_ADVISE_UNSET_READ_MOSTLY, here));
	WORKS(cuMemAdvise(address, 4 * MiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
	WORKS(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, address,
				     4 * MiB));
	EQUALS(value, device);
	WORKS(cuMemPrefetchAsync(address, 4 * MiB, here, 0, NULL));
	WORKS(cuStreamSynchronize(NULL));
	WORKS(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, address,
				     4 * MiB));
	EQUALS(value, device);
	WORKS(cuMemPrefetchAsync(address, 4 * MiB, host, 0, NULL));
	WORKS(cuStreamSynchronize(NULL));
	GIVES(cuMemPrefetchAsync(address, 8 * MiB, here, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuMemAdvise(address, 4 * MiB, 99, here), CUDA_ERROR_INVALID_VALUE);
	NEED(cuMemAlloc(&plain, 4096));
	GIVES(cuMemPrefetchAsync(plain, 4096, here, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemFree(plain));
	WORKS(cuMemFree(address));
}

CONFORM(batches)
{
	CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, host = {.type = CU_MEM_LOCATION_TYPE_HOST};
	CUdeviceptr address = 0, plain = 0;
	CUstream stream;
	int concurrent = 0, value = 9;

	need_context();
	NEED(cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device));
	if (!concurrent)
		SKIP("no concurrent managed access here");
	here.id = device;
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	NEED(cuMemAllocManaged(&address, 8 * MiB, CU_MEM_ATTACH_GLOBAL));
	NEED(cuMemAlloc(&plain, 4096));
	CUdeviceptr both[] = {address, address + 4 * MiB};
	size_t sizes[] = {4 * MiB, 4 * MiB}, first[] = {0, 1}, wrong[] = {1, 0};
	CUmemLocation places[] = {here, host};
	WORKS(cuMemPrefetchBatchAsync(both, sizes, 2, places, first, 2, 0, stream));
	WORKS(cuMemDiscardBatchAsync(both, sizes, 2, 0, stream));
	WORKS(cuMemDiscardAndPrefetchBatchAsync(both, sizes, 2, places, first, 1, 0, stream));
	WORKS(cuStreamSynchronize(stream));
	WORKS(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, address,
				     8 * MiB));
	EQUALS(value, device);
	FAILS(cuMemPrefetchBatchAsync(both, sizes, 0, places, first, 1, 0, stream));
	// invalid: the first index must be 0
	FAILS(cuMemPrefetchBatchAsync(both, sizes, 2, places, wrong, 2, 0, stream));
	FAILS(cuMemPrefetchBatchAsync(both, sizes, 1, places, first, 2, 0, stream)); // invalid: more places than ranges
	FAILS(cuMemPrefetchBatchAsync(both, sizes, 2, places, first, 2, 5, stream));
	FAILS(cuMemDiscardBatchAsync(both, sizes, 2, 0, NULL)); // the legacy stream is not allowed
	FAILS(cuMemDiscardBatchAsync(both, sizes, 2, 3, stream));
	sizes[1] = 8 * MiB;
	FAILS(cuMemDiscardBatchAsync(both, sizes, 2, 0, stream)); // the range extends beyond the allocation
	both[1] = plain, sizes[1] = 4096;
	FAILS(cuMemDiscardBatchAsync(both, sizes, 2, 0, stream)); // not managed
	WORKS(cuMemFree(plain));
	WORKS(cuMemFree(address));
	WORKS(cuStreamDestroy(stream));
}

CONFORM(attaching)
{
	CUdeviceptr address = 0;
	CUstream stream;

	need_context();
	NEED(cuMemAllocManaged(&address, 64 * KiB, CU_MEM_ATTACH_HOST));
	NEED(cuStreamCreate(&stream, 0));
	WORKS(cuStreamAttachMemAsync(stream, address, 0, CU_MEM_ATTACH_SINGLE));
	WORKS(cuStreamSynchronize(stream));
	GIVES(cuStreamAttachMemAsync(stream, address, 0, 77), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuMemFree(address));
	WORKS(cuStreamDestroy(stream));
}

// Variables: counter (managed, 5), plain (in device memory, 9). bump(n) adds n to counter.
static const char ptx_managed[] =
	PTX_HEAD ".visible .global .attribute(.managed) .align 4 .u32 counter = 5;\n"
		 ".visible .global .align 4 .u32 plain = 9;\n"
		 ".visible .entry bump(.param .u32 n) {\n"
		 "	.reg .b32 %n, %v;\n	ld.param.u32 %n, [n];\n	ld.global.u32 %v, [counter];\n"
		 "	add.u32 %v, %v, %n;\n	st.global.u32 [counter], %v;\n	ret;\n}\n";

CONFORM(variables_of_a_module)
{
	CUdeviceptr address = 0;
	unsigned managed = 0, n = 3;
	size_t size = 0;

	need_context();
	CUmodule module = need_module(ptx_managed);
	NEED(cuModuleGetGlobal(&address, &size, module, "counter"));
	EQUALS(size, 4);
	WORKS(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
	EQUALS(managed & 0xff, 1);
	EQUALS(*(volatile unsigned *)address, 5);
	void *arguments[] = {&n};
	NEED(cuLaunchKernel(need_function(module, "bump"), 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	WORKS(cuCtxSynchronize());
	EQUALS(*(volatile unsigned *)address, 8);
	FAILS(cuMemFree(address));
	WORKS(cuModuleUnload(module));
}

// Generated code looks up managed variables at the start of a program, before a context exists.
CHILD(variables_without_a_context)
{
	CUdeviceptr address = 0, again = 0;
	CUlibrary library;
	CUkernel bump;
	unsigned n = 4;
	size_t size = 0;

	NEED(cuInit(0));
	NEED(cuLibraryLoadData(&library, ptx_managed, NULL, NULL, 0, NULL, NULL, 0));
	NEED(cuLibraryGetManaged(&address, &size, library, "counter"));
	EQUALS(size, 4);
	GIVES(cuLibraryGetManaged(&again, NULL, library, "plain"), CUDA_ERROR_NOT_FOUND);
	need_context();
	NEED(cuLibraryGetKernel(&bump, library, "bump"));
	void *arguments[] = {&n};
	NEED(cuLaunchKernel((CUfunction)bump, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	WORKS(cuCtxSynchronize());
	EQUALS(*(volatile unsigned *)address, 9); // the initial 5, plus 4
	WORKS(cuLibraryGetManaged(&again, NULL, library, "counter"));
	EQUALS(again, address);
	WORKS(cuLibraryUnload(library));
}

CONFORM(variables_without_a_context)
{
	run_child("variables_without_a_context", NULL);
}

CONFORM(variables_of_a_library)
{
	CUdeviceptr address = 0, again = 0;
	CUlibrary library;
	CUkernel bump;
	unsigned n = 4;
	size_t size = 0;

	need_context();
	NEED(cuLibraryLoadData(&library, ptx_managed, NULL, NULL, 0, NULL, NULL, 0));
	NEED(cuLibraryGetKernel(&bump, library, "bump"));
	void *arguments[] = {&n};
	NEED(cuLaunchKernel((CUfunction)bump, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	WORKS(cuCtxSynchronize());
	NEED(cuLibraryGetManaged(&address, &size, library, "counter"));
	EQUALS(size, 4);
	EQUALS(*(volatile unsigned *)address, 9);
	WORKS(cuLibraryGetManaged(&again, NULL, library, "counter"));
	EQUALS(again, address);
	GIVES(cuLibraryGetManaged(&again, NULL, library, "plain"), CUDA_ERROR_NOT_FOUND);
	GIVES(cuLibraryGetManaged(&again, NULL, library, "nothing"), CUDA_ERROR_NOT_FOUND);
	GIVES(cuLibraryGetManaged(&again, NULL, library, NULL), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuLibraryGetGlobal(&again, &size, library, "plain"));
	WORKS(cuLibraryUnload(library));
}

CONFORM(variables_take_advice)
{
	CUdeviceptr address = 0;
	int value = 9, concurrent = 0;
	size_t size = 0;

	need_context();
	NEED(cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device));
	if (!concurrent)
		SKIP("no concurrent managed access here");
	CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	CUmodule module = need_module(ptx_managed);
	NEED(cuModuleGetGlobal(&address, &size, module, "counter"));
	WORKS(cuMemAdvise(address, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
	WORKS(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, address, size));
	EQUALS(value, device);
	WORKS(cuMemPrefetchAsync(address, size, here, 0, NULL));
	WORKS(cuStreamSynchronize(NULL));
	EQUALS(*(volatile unsigned *)address, 5);
	WORKS(cuModuleUnload(module));
}
