// Reads device properties from the driver's attributes.
#include "runtime.h"

// The fields of cudaDeviceProp, and the driver's attributes that fill them.
#define FIELD(attribute, field)                                                          \
	{                                                                                \
		CU_DEVICE_ATTRIBUTE_##attribute, offsetof(struct cudaDeviceProp, field), \
			sizeof(((struct cudaDeviceProp *)0)->field)                      \
	}
static const struct {
	CUdevice_attribute attribute;
	size_t offset, size;
} fields[] = {
	FIELD(MAX_SHARED_MEMORY_PER_BLOCK, sharedMemPerBlock),
	FIELD(MAX_REGISTERS_PER_BLOCK, regsPerBlock),
	FIELD(WARP_SIZE, warpSize),
	FIELD(MAX_PITCH, memPitch),
	FIELD(MAX_THREADS_PER_BLOCK, maxThreadsPerBlock),
	FIELD(MAX_BLOCK_DIM_X, maxThreadsDim[0]),
	FIELD(MAX_BLOCK_DIM_Y, maxThreadsDim[1]),
	FIELD(MAX_BLOCK_DIM_Z, maxThreadsDim[2]),
	FIELD(MAX_GRID_DIM_X, maxGridSize[0]),
	FIELD(MAX_GRID_DIM_Y, maxGridSize[1]),
	FIELD(MAX_GRID_DIM_Z, maxGridSize[2]),
	FIELD(TOTAL_CONSTANT_MEMORY, totalConstMem),
	FIELD(COMPUTE_CAPABILITY_MAJOR, major),
	FIELD(COMPUTE_CAPABILITY_MINOR, minor),
	FIELD(TEXTURE_ALIGNMENT, textureAlignment),
	FIELD(TEXTURE_PITCH_ALIGNMENT, texturePitchAlignment),
	FIELD(MULTIPROCESSOR_COUNT, multiProcessorCount),
	FIELD(INTEGRATED, integrated),
	FIELD(CAN_MAP_HOST_MEMORY, canMapHostMemory),
	FIELD(MAXIMUM_TEXTURE1D_WIDTH, maxTexture1D),
	FIELD(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, maxTexture1DMipmap),
	FIELD(MAXIMUM_TEXTURE2D_WIDTH, maxTexture2D[0]),
	FIELD(MAXIMUM_TEXTURE2D_HEIGHT, maxTexture2D[1]),
	FIELD(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, maxTexture2DMipmap[0]),
	FIELD(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, maxTexture2DMipmap[1]),
	FIELD(MAXIMUM_TEXTURE2D_LINEAR_WIDTH, maxTexture2DLinear[0]),
	FIELD(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, maxTexture2DLinear[1]),
	FIELD(MAXIMUM_TEXTURE2D_LINEAR_PITCH, maxTexture2DLinear[2]),
	FIELD(MAXIMUM_TEXTURE2D_GATHER_WIDTH, maxTexture2DGather[0]),
	FIELD(MAXIMUM_TEXTURE2D_GATHER_HEIGHT, maxTexture2DGather[1]),
	FIELD(MAXIMUM_TEXTURE3D_WIDTH, maxTexture3D[0]),
	FIELD(MAXIMUM_TEXTURE3D_HEIGHT, maxTexture3D[1]),
	FIELD(MAXIMUM_TEXTURE3D_DEPTH, maxTexture3D[2]),
	FIELD(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, maxTexture3DAlt[0]),
	FIELD(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, maxTexture3DAlt[1]),
	FIELD(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, maxTexture3DAlt[2]),
	FIELD(MAXIMUM_TEXTURECUBEMAP_WIDTH, maxTextureCubemap),
	FIELD(MAXIMUM_TEXTURE1D_LAYERED_WIDTH, maxTexture1DLayered[0]),
	FIELD(MAXIMUM_TEXTURE1D_LAYERED_LAYERS, maxTexture1DLayered[1]),
	FIELD(MAXIMUM_TEXTURE2D_LAYERED_WIDTH, maxTexture2DLayered[0]),
	FIELD(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, maxTexture2DLayered[1]),
	FIELD(MAXIMUM_TEXTURE2D_LAYERED_LAYERS, maxTexture2DLayered[2]),
	FIELD(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, maxTextureCubemapLayered[0]),
	FIELD(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, maxTextureCubemapLayered[1]),
	FIELD(MAXIMUM_SURFACE1D_WIDTH, maxSurface1D),
	FIELD(MAXIMUM_SURFACE2D_WIDTH, maxSurface2D[0]),
	FIELD(MAXIMUM_SURFACE2D_HEIGHT, maxSurface2D[1]),
	FIELD(MAXIMUM_SURFACE3D_WIDTH, maxSurface3D[0]),
	FIELD(MAXIMUM_SURFACE3D_HEIGHT, maxSurface3D[1]),
	FIELD(MAXIMUM_SURFACE3D_DEPTH, maxSurface3D[2]),
	FIELD(MAXIMUM_SURFACE1D_LAYERED_WIDTH, maxSurface1DLayered[0]),
	FIELD(MAXIMUM_SURFACE1D_LAYERED_LAYERS, maxSurface1DLayered[1]),
	FIELD(MAXIMUM_SURFACE2D_LAYERED_WIDTH, maxSurface2DLayered[0]),
	FIELD(MAXIMUM_SURFACE2D_LAYERED_HEIGHT, maxSurface2DLayered[1]),
	FIELD(MAXIMUM_SURFACE2D_LAYERED_LAYERS, maxSurface2DLayered[2]),
	FIELD(MAXIMUM_SURFACECUBEMAP_WIDTH, maxSurfaceCubemap),
	FIELD(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, maxSurfaceCubemapLayered[0]),
	FIELD(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, maxSurfaceCubemapLayered[1]),
	FIELD(SURFACE_ALIGNMENT, surfaceAlignment),
	FIELD(CONCURRENT_KERNELS, concurrentKernels),
	FIELD(ECC_ENABLED, ECCEnabled),
	FIELD(PCI_BUS_ID, pciBusID),
	FIELD(PCI_DEVICE_ID, pciDeviceID),
	FIELD(PCI_DOMAIN_ID, pciDomainID),
	FIELD(TCC_DRIVER, tccDriver),
	FIELD(ASYNC_ENGINE_COUNT, asyncEngineCount),
	FIELD(UNIFIED_ADDRESSING, unifiedAddressing),
	FIELD(GLOBAL_MEMORY_BUS_WIDTH, memoryBusWidth),
	FIELD(L2_CACHE_SIZE, l2CacheSize),
	FIELD(MAX_PERSISTING_L2_CACHE_SIZE, persistingL2CacheMaxSize),
	FIELD(MAX_THREADS_PER_MULTIPROCESSOR, maxThreadsPerMultiProcessor),
	FIELD(STREAM_PRIORITIES_SUPPORTED, streamPrioritiesSupported),
	FIELD(GLOBAL_L1_CACHE_SUPPORTED, globalL1CacheSupported),
	FIELD(LOCAL_L1_CACHE_SUPPORTED, localL1CacheSupported),
	FIELD(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, sharedMemPerMultiprocessor),
	FIELD(MAX_REGISTERS_PER_MULTIPROCESSOR, regsPerMultiprocessor),
	FIELD(MANAGED_MEMORY, managedMemory),
	FIELD(MULTI_GPU_BOARD, isMultiGpuBoard),
	FIELD(MULTI_GPU_BOARD_GROUP_ID, multiGpuBoardGroupID),
	FIELD(HOST_NATIVE_ATOMIC_SUPPORTED, hostNativeAtomicSupported),
	FIELD(PAGEABLE_MEMORY_ACCESS, pageableMemoryAccess),
	FIELD(CONCURRENT_MANAGED_ACCESS, concurrentManagedAccess),
	FIELD(COMPUTE_PREEMPTION_SUPPORTED, computePreemptionSupported),
	FIELD(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, canUseHostPointerForRegisteredMem),
	FIELD(COOPERATIVE_LAUNCH, cooperativeLaunch),
	FIELD(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, sharedMemPerBlockOptin),
	FIELD(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, pageableMemoryAccessUsesHostPageTables),
	FIELD(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, directManagedMemAccessFromHost),
	FIELD(MAX_BLOCKS_PER_MULTIPROCESSOR, maxBlocksPerMultiProcessor),
	FIELD(MAX_ACCESS_POLICY_WINDOW_SIZE, accessPolicyMaxWindowSize),
	FIELD(RESERVED_SHARED_MEMORY_PER_BLOCK, reservedSharedMemPerBlock),
	FIELD(HOST_REGISTER_SUPPORTED, hostRegisterSupported),
	FIELD(SPARSE_CUDA_ARRAY_SUPPORTED, sparseCudaArraySupported),
	FIELD(READ_ONLY_HOST_REGISTER_SUPPORTED, hostRegisterReadOnlySupported),
	FIELD(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, timelineSemaphoreInteropSupported),
	FIELD(MEMORY_POOLS_SUPPORTED, memoryPoolsSupported),
	FIELD(GPU_DIRECT_RDMA_SUPPORTED, gpuDirectRDMASupported),
	FIELD(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, gpuDirectRDMAFlushWritesOptions),
	FIELD(GPU_DIRECT_RDMA_WRITES_ORDERING, gpuDirectRDMAWritesOrdering),
	FIELD(MEMPOOL_SUPPORTED_HANDLE_TYPES, memoryPoolSupportedHandleTypes),
	FIELD(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, deferredMappingCudaArraySupported),
	FIELD(IPC_EVENT_SUPPORTED, ipcEventSupported),
	FIELD(CLUSTER_LAUNCH, clusterLaunch),
	FIELD(UNIFIED_FUNCTION_POINTERS, unifiedFunctionPointers),
	FIELD(NUMA_CONFIG, deviceNumaConfig),
	FIELD(NUMA_ID, deviceNumaId),
	FIELD(MPS_ENABLED, mpsEnabled),
	FIELD(HOST_NUMA_ID, hostNumaId),
	FIELD(GPU_PCI_DEVICE_ID, gpuPciDeviceID),
	FIELD(GPU_PCI_SUBSYSTEM_ID, gpuPciSubsystemID),
	FIELD(HOST_NUMA_MULTINODE_IPC_SUPPORTED, hostNumaMultinodeIpcSupported),
};

static cudaError_t get_properties(struct cudaDeviceProp *ret_properties, int ordinal)
{
	struct cudaDeviceProp properties = {0};
	struct rt_device *device;

	if (!ret_properties)
		return cudaErrorInvalidValue;
	RT_TRY(rt_device_get(ordinal, &device));
	RT_TRY(rt_driver.cuDeviceGetName(properties.name, sizeof properties.name, device->handle));
	RT_TRY(rt_driver.cuDeviceGetUuid_v2((CUuuid *)&properties.uuid, device->handle));
	RT_TRY(rt_driver.cuDeviceTotalMem_v2(&properties.totalGlobalMem, device->handle));
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		int value = 0;
		// If an older driver does not know an attribute, the property is 0.
		rt_driver.cuDeviceGetAttribute(&value, fields[i].attribute, device->handle);
		char *field = (char *)&properties + fields[i].offset;
		if (fields[i].size == sizeof(size_t))
			*(size_t *)field = (size_t)value;
		else
			*(int *)field = value;
	}
	*ret_properties = properties;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	RT_CALL_INITIALIZED(get_properties(prop, device));
}

// Returns how many of the wanted properties a device has. A wanted property of 0 does not count.
static int count_matches(const struct cudaDeviceProp *wanted, const struct cudaDeviceProp *has)
{
	int capability = has->major * 10 + has->minor;

	return (wanted->name[0] && strcmp(wanted->name, has->name) == 0) +
	       (wanted->totalGlobalMem && has->totalGlobalMem >= wanted->totalGlobalMem) +
	       (wanted->major && capability >= wanted->major * 10 + wanted->minor) +
	       (wanted->multiProcessorCount && has->multiProcessorCount >= wanted->multiProcessorCount) +
	       (wanted->sharedMemPerBlock && has->sharedMemPerBlock >= wanted->sharedMemPerBlock) +
	       (wanted->maxThreadsPerBlock && has->maxThreadsPerBlock >= wanted->maxThreadsPerBlock);
}

static cudaError_t choose_device(int *ret_ordinal, const struct cudaDeviceProp *wanted)
{
	struct cudaDeviceProp has;
	int best = -1, chosen = 0;

	if (!ret_ordinal || !wanted)
		return cudaErrorInvalidValue;
	for (int i = 0; i < rt_device_count(); i++) {
		RT_TRY(get_properties(&has, i));
		int matches = count_matches(wanted, &has);
		if (matches > best) {
			best = matches;
			chosen = i;
		}
	}
	*ret_ordinal = chosen;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
	RT_CALL_INITIALIZED(choose_device(device, prop));
}
