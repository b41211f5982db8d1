// Declares the properties of a device, which cudaGetDeviceProperties returns.
#pragma once
#include <stddef.h>
#include "../cuda/uuid.h"

struct cudaDeviceProp {
	// Identity and memory
	char name[256];
	CUuuid uuid;
	char luid[8]; // on Windows only
	unsigned int luidDeviceNodeMask;
	size_t totalGlobalMem;

	// Launches
	size_t sharedMemPerBlock;
	int regsPerBlock, warpSize;
	size_t memPitch;
	int maxThreadsPerBlock;
	int maxThreadsDim[3], maxGridSize[3];
	size_t totalConstMem;
	int major, minor;

	// Mostly limits of textures and surfaces. In the limits of a layered type, the last number is the number of
	// layers.
	size_t textureAlignment, texturePitchAlignment;
	int multiProcessorCount;
	int integrated, canMapHostMemory;
	int maxTexture1D, maxTexture1DMipmap;
	int maxTexture2D[2], maxTexture2DMipmap[2];
	int maxTexture2DLinear[3]; // width, height and pitch
	int maxTexture2DGather[2];
	int maxTexture3D[3], maxTexture3DAlt[3];
	int maxTextureCubemap;
	int maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2];
	int maxSurface1D, maxSurface2D[2], maxSurface3D[3];
	int maxSurface1DLayered[2], maxSurface2DLayered[3];
	int maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
	size_t surfaceAlignment;

	// ECC, the PCI address, and the memory system
	int concurrentKernels, ECCEnabled;
	int pciBusID, pciDeviceID, pciDomainID;
	int tccDriver, asyncEngineCount, unifiedAddressing;
	int memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;

	// Multiprocessors
	int maxThreadsPerMultiProcessor;
	int streamPrioritiesSupported;
	int globalL1CacheSupported, localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor;

	// Supported features
	int managedMemory;
	int isMultiGpuBoard, multiGpuBoardGroupID;
	int hostNativeAtomicSupported;
	int pageableMemoryAccess, concurrentManagedAccess;
	int computePreemptionSupported;
	int canUseHostPointerForRegisteredMem;
	int cooperativeLaunch;
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost;
	int maxBlocksPerMultiProcessor;
	int accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported;
	int timelineSemaphoreInteropSupported;
	int memoryPoolsSupported;
	int gpuDirectRDMASupported;
	unsigned int gpuDirectRDMAFlushWritesOptions;
	int gpuDirectRDMAWritesOrdering;
	unsigned int memoryPoolSupportedHandleTypes;
	int deferredMappingCudaArraySupported;
	int ipcEventSupported;
	int clusterLaunch;
	int unifiedFunctionPointers;
	int deviceNumaConfig, deviceNumaId;
	int mpsEnabled;
	int hostNumaId;
	unsigned int gpuPciDeviceID, gpuPciSubsystemID;
	int hostNumaMultinodeIpcSupported;
	int reserved[56];
};
