// Tests attributes of kernels, occupancy, libraries.
#include "cudart.h"

CONFORM(attributes_of_kernels)
{
	struct cudaFuncAttributes attributes;
	const char *name = NULL;
	size_t offset = 99, size = 99;
	int major = 0, minor = 0;

	WORKS(cudaFuncGetAttributes(&attributes, static_shared));
	EQUALS(attributes.sharedSizeBytes, 256 * sizeof(int));
	HOLDS(attributes.maxThreadsPerBlock == 1024);
	HOLDS(attributes.numRegs > 0);
	WORKS(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
	WORKS(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
	EQUALS(attributes.binaryVersion, 10 * major + minor);
	EQUALS(attributes.ptxVersion, 75);
	WORKS(cudaFuncGetAttributes(&attributes, bounded));
	EQUALS(attributes.maxThreadsPerBlock, 128);
	EQUALS(attributes.sharedSizeBytes, 0);
	WORKS(cudaFuncSetAttribute(bounded, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
	WORKS(cudaFuncGetAttributes(&attributes, bounded));
	EQUALS(attributes.preferredShmemCarveout, 50);
	WORKS(cudaFuncGetName(&name, by_value));
	HOLDS(name && strcmp(name, "by_value") == 0);
	WORKS(cudaFuncGetParamInfo(by_value, 0, &offset, &size));
	EQUALS(offset, 0);
	EQUALS(size, sizeof(struct pair));
	WORKS(cudaFuncGetParamInfo(by_value, 1, &offset, &size));
	EQUALS(offset, 16);
	EQUALS(size, 1);
	WORKS(cudaFuncGetParamInfo(by_value, 2, &offset, &size));
	EQUALS(offset, 24);
	GIVES_LAST(cudaFuncGetParamInfo(by_value, 3, &offset, &size), cudaErrorInvalidValue);
	GIVES_LAST(cudaFuncGetAttributes(NULL, bounded), cudaErrorInvalidValue);
	GIVES_LAST(cudaFuncSetAttribute(bounded, (enum cudaFuncAttribute)77, 1), cudaErrorInvalidValue);
	WORKS(cudaFuncSetCacheConfig(bounded, cudaFuncCachePreferL1));
}

CONFORM(occupancy)
{
	int blocks = 0, fewer = 0;
	size_t dynamic = 0;

	WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 1024, 0));
	BETWEEN(blocks, 1, 2);
	WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 32, 0));
	BETWEEN(blocks, 16, 32);
	WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&fewer, empty, 32, 40 << 10, 0));
	HOLDS(fewer > 0 && fewer < blocks);
	WORKS(cudaOccupancyAvailableDynamicSMemPerBlock(&dynamic, empty, 2, 128));
	HOLDS(dynamic > 0);
	GIVES_LAST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(NULL, empty, 32, 0), cudaErrorInvalidValue);
	GIVES_LAST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 0, 0), cudaErrorInvalidValue);
}

static const char ptx[] = ".version 7.5\n.target sm_75\n.address_size 64\n"
			  ".visible .global .u32 word = 6;\n"
			  ".visible .entry put(.param .u64 address, .param .u32 value) {\n"
			  "	.reg .b64 %a;\n	.reg .b32 %v;\n"
			  "	ld.param.u64 %a, [address];\n	ld.param.u32 %v, [value];\n"
			  "	st.global.u32 [%a], %v;\n	ret;\n}\n";

CONFORM(libraries)
{
	cudaLibrary_t library = NULL;
	cudaKernel_t kernel = NULL, found[2] = {NULL, NULL};
	int *to = need_ints(1), value = 19, *word = NULL;
	void *arguments[] = {&to, &value};
	unsigned count = 0;
	size_t size = 0;

	WORKS(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	WORKS(cudaLibraryGetKernelCount(&count, library));
	EQUALS(count, 1);
	WORKS(cudaLibraryGetKernel(&kernel, library, "put"));
	WORKS(cudaLibraryEnumerateKernels(found, 1, library));
	HOLDS(found[0] == kernel);
	WORKS(launch_with((const void *)kernel, 1, 1, arguments, NULL));
	EQUALS(read_int(to), 19);
	WORKS(cudaLibraryGetGlobal((void **)&word, &size, library, "word"));
	EQUALS(size, 4);
	EQUALS(read_int(word), 6);
	GIVES_LAST(cudaLibraryGetKernel(&kernel, library, "nothing"), cudaErrorSymbolNotFound);
	WORKS(cudaLibraryUnload(library));
	WORKS(cudaLibraryLoadData(&library, "no code at all", NULL, NULL, 0, NULL, NULL, 0)); // compiled later
	FAILS(cudaLibraryGetKernel(&kernel, library, "put"));
	cudaGetLastError();
	WORKS(cudaFree(to));
}

// Tests errors that the runtime detects itself, without calling the driver.
CONFORM(unknown_export_table_is_refused)
{
	const void *table = NULL;
	const cudaUUID_t unknown = {{0}};

	FAILS(cudaGetExportTable(&table, &unknown));
	cudaGetLastError();
}

CONFORM(attributes_of_a_kernel_handle)
{
	cudaKernel_t kernel;
	struct cudaFuncAttributes attributes;

	NEED(cudaGetKernel(&kernel, static_shared));
	WORKS(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 25, 0));
	WORKS(cudaFuncGetAttributes(&attributes, (const void *)kernel));
	EQUALS(attributes.sharedSizeBytes, 1024);
	GIVES_LAST(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 25, 1000),
		   cudaErrorInvalidDevice);
}

CONFORM(clusters)
{
	cudaLaunchConfig_t config = {.gridDim = {8, 1, 1}, .blockDim = {128, 1, 1}};
	cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeClusterDimension, .val = {.clusterDim = {2, 1, 1}}};
	int size = 0, count = 0, supported = 0;

	WORKS(cudaDeviceGetAttribute(&supported, cudaDevAttrClusterLaunch, 0));
	if (!supported)
		SKIP("this GPU has no clusters");
	WORKS(cudaOccupancyMaxPotentialClusterSize(&size, empty, &config));
	HOLDS(size >= 8);
	config.attrs = &attribute;
	config.numAttrs = 1;
	WORKS(cudaOccupancyMaxActiveClusters(&count, empty, &config));
	HOLDS(count > 0);
}
