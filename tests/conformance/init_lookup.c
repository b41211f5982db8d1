// Tests initialisation, calls that work before it or without a context, and the lookup of driver functions by name.
#include "conformance.h"

CHILD(before_init)
{
	int count = -1, version = 0;
	CUcontext current = (CUcontext)8;
	CUdevice first;
	CUdeviceptr address;
	size_t available, total;
	void *entry = NULL;
	const char *text = NULL;

	GIVES(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	GIVES(cuDeviceGet(&first, 0), CUDA_ERROR_NOT_INITIALIZED);
	GIVES(cuMemAlloc(&address, 16), CUDA_ERROR_NOT_INITIALIZED);
	GIVES(cuMemGetInfo(&available, &total), CUDA_ERROR_NOT_INITIALIZED);
	GIVES(cuCtxGetCurrent(&current), CUDA_ERROR_NOT_INITIALIZED);
	GIVES(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
	GIVES(cuMemFree(0), CUDA_ERROR_NOT_INITIALIZED);
	WORKS(cuDriverGetVersion(&version));
	HOLDS(version >= 12080);
	WORKS(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
	WORKS(cuGetProcAddress("cuMemAlloc", &entry, 12000, 0, NULL));
	HOLDS(entry != NULL);
	GIVES(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	WORKS(cuInit(0));
	WORKS(cuInit(0));
	GIVES(cuInit(7), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuDeviceGetCount(&count));
	HOLDS(count >= 1);
}

CONFORM(before_init)
{
	run_child("before_init", NULL);
}

CHILD(no_context)
{
	CUcontext current = (CUcontext)8, popped;
	CUdeviceptr address;
	CUdevice first = -1, ours;
	CUstream stream;
	CUevent event;
	CUmodule module;
	CUmemoryPool pool;
	CUmemGenericAllocationHandle handle;
	size_t available, total;
	void *host = NULL;

	NEED(cuInit(0));
	NEED(cuDeviceGet(&ours, 0));
	WORKS(cuCtxGetCurrent(&current));
	HOLDS(current == NULL);
	GIVES(cuMemAlloc(&address, 16), CUDA_ERROR_INVALID_CONTEXT);
	WORKS(cuMemFree(0)); // nothing to free
	GIVES(cuMemGetInfo(&available, &total), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuMemAllocManaged(&address, 16, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuMemHostAlloc(&host, 4096, 0), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuCtxGetDevice(&first), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuStreamSynchronize(NULL), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuEventCreate(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuModuleLoadData(&module, ptx_basic), CUDA_ERROR_INVALID_CONTEXT);
	GIVES(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
	WORKS(cuCtxSetCurrent(NULL));
	WORKS(cuDeviceGetDefaultMemPool(&pool, ours));
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ours}};
	if (cuMemCreate(&handle, 2 * MiB, &properties, 0) == CUDA_SUCCESS)
		WORKS(cuMemRelease(handle));
	else
		differ(__FILE__, __LINE__, "cuMemCreate needs a context");
	WORKS(cuMemAddressReserve(&address, 2 * MiB, 0, 0, 0));
	WORKS(cuMemAddressFree(address, 2 * MiB));
}

CONFORM(without_a_context)
{
	run_child("no_context", NULL);
}

static void *export_named(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

#define LOOKS_UP(api, version, flags, abi)                                                                       \
	do {                                                                                                     \
		void *entry_ = NULL;                                                                             \
		CUdriverProcAddressQueryResult status_ = -1;                                                     \
		GIVES(cuGetProcAddress(api, &entry_, version, flags, &status_), CUDA_SUCCESS);                   \
		EQUALS(status_, CU_GET_PROC_ADDRESS_SUCCESS);                                                    \
		assertions++;                                                                                    \
		if (entry_ != export_named(abi))                                                                 \
			differ(__FILE__, __LINE__, "%s at %d flags %d is not " abi, api, version, (int)(flags)); \
	} while (0)

CONFORM(lookup_by_version)
{
	LOOKS_UP("cuInit", 2000, 0, "cuInit");
	LOOKS_UP("cuMemAlloc", 2000, 0, "cuMemAlloc");
	LOOKS_UP("cuMemAlloc", 3010, 0, "cuMemAlloc");
	LOOKS_UP("cuMemAlloc", 3020, 0, "cuMemAlloc_v2");
	LOOKS_UP("cuMemAlloc", 13000, 0, "cuMemAlloc_v2");
	LOOKS_UP("cuCtxCreate", 11030, 0, "cuCtxCreate_v2");
	LOOKS_UP("cuCtxCreate", 12040, 0, "cuCtxCreate_v3");
	LOOKS_UP("cuCtxCreate", 13000, 0, "cuCtxCreate_v4");
	LOOKS_UP("cuStreamGetCaptureInfo", 11030, 0, "cuStreamGetCaptureInfo_v2");
	LOOKS_UP("cuStreamGetCaptureInfo", 12030, 0, "cuStreamGetCaptureInfo_v3");
	LOOKS_UP("cuEventElapsedTime", 12070, 0, "cuEventElapsedTime");
	LOOKS_UP("cuEventElapsedTime", 12080, 0, "cuEventElapsedTime_v2");
	LOOKS_UP("cuGraphInstantiate", 10000, 0, "cuGraphInstantiate");
	LOOKS_UP("cuGraphInstantiate", 11000, 0, "cuGraphInstantiate_v2");
}

CONFORM(lookup_by_stream_flavour)
{
	LOOKS_UP("cuMemcpyAsync", 13000, CU_GET_PROC_ADDRESS_DEFAULT, "cuMemcpyAsync");
	LOOKS_UP("cuMemcpyAsync", 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, "cuMemcpyAsync");
	LOOKS_UP("cuMemcpyAsync", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuMemcpyAsync_ptsz");
	LOOKS_UP("cuMemcpy", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuMemcpy_ptds");
	LOOKS_UP("cuMemcpyHtoD", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuMemcpyHtoD_v2_ptds");
	LOOKS_UP("cuLaunchKernel", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuLaunchKernel_ptsz");
	LOOKS_UP("cuMemAlloc", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuMemAlloc_v2");
	LOOKS_UP("cuMemAllocAsync", 11020, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, "cuMemAllocAsync_ptsz");
}

// Checks each row of entries.def: the lookup by name, version and flavour (kind of default stream) gives the exported
// function.
CONFORM(lookup_of_every_entry)
{
	enum { plain, ptds, ptsz };
	static const struct {
		const char *abi, *api;
		int version, stream;
	} rows[] = {
#define ENTRY(abi, api, version, stream, family, need) {#abi, #api, version, stream},
#include "../../src/abi/entries.def"
	};
	unsigned found = 0;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		void *entry = NULL, *export = export_named(rows[i].abi);
		CUresult result =
			cuGetProcAddress(rows[i].api, &entry, rows[i].version,
					 rows[i].stream == plain ? CU_GET_PROC_ADDRESS_LEGACY_STREAM
								 : CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
					 NULL);
		assertions++;
		if (!export && !entry)
			continue; // the driver is older than this function of entries.def
		found++;
		if (result != CUDA_SUCCESS || entry != export)
			differ(__FILE__, __LINE__, "%s at %d gave %d and %s", rows[i].api, rows[i].version, result,
			       !entry ? "nothing" : "another entry than the export");
	}
	HOLDS(found > 500);
}

CONFORM(lookup_of_the_lookup)
{
	LOOKS_UP("cuGetProcAddress", 11030, 0, "cuGetProcAddress");
	LOOKS_UP("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
	LOOKS_UP("cuGetProcAddress", 13000, 0, "cuGetProcAddress_v2");
}

// Checks the lookup of a missing driver function: it succeeds, with a null pointer and a status that gives the reason.
#define LACKS(api, version, why)                                             \
	do {                                                                 \
		void *entry_ = &entry_;                                      \
		CUdriverProcAddressQueryResult status_ = -1;                 \
		WORKS(cuGetProcAddress(api, &entry_, version, 0, &status_)); \
		EQUALS(status_, why);                                        \
		HOLDS(entry_ == NULL);                                       \
	} while (0)

CONFORM(lookup_of_what_is_not_there)
{
	void *entry = &entry;

	LACKS("cuNoSuchEntry", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	LACKS("cuMemAlloc_v2", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	LACKS("", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	LACKS("cuMemAllocAsync", 10000, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	LACKS("cuGetProcAddress", 11020, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	LACKS("cuInit", 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	WORKS(cuGetProcAddress("cuNoSuchEntry", &entry, 13000, 0, NULL)); // the status may be left out
	HOLDS(entry == NULL);
}

CONFORM(lookup_refusals)
{
	void *entry = &entry;
	CUdriverProcAddressQueryResult status = -1;

	GIVES(cuGetProcAddress("cuInit", &entry, 13000, 8, &status), CUDA_ERROR_INVALID_VALUE);
	WORKS(cuGetProcAddress("cuInit", &entry, 13000, 3, &status)); // flags of both flavours at once
}

CONFORM(first_version_of_lookup)
{
	// version 1 of the function has no parameter for the status
	CUresult (*first)(const char *, void **, int, cuuint64_t) = export_named("cuGetProcAddress");
	void *entry = NULL;

	HOLDS(first != NULL);
	WORKS(first("cuMemFree", &entry, 11030, 0));
	HOLDS(entry == export_named("cuMemFree_v2"));
	GIVES(first("cuNoSuchEntry", &entry, 11030, 0), CUDA_ERROR_NOT_FOUND);
}

CONFORM(version_and_null)
{
	GIVES(cuDriverGetVersion(NULL), CUDA_ERROR_INVALID_VALUE);
	NEED(cuInit(0));
	GIVES(cuDeviceGetCount(NULL), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuCtxGetCurrent(NULL), CUDA_ERROR_INVALID_VALUE);
}

CONFORM(unknown_export_table)
{
	CUuuid unknown = {{1, 2, 3}};
	const void *table = &unknown;

	FAILS(cuGetExportTable(&table, &unknown));
}
