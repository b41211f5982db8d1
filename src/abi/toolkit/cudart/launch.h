// Declares kernels: their attributes, launches and occupancy.
#pragma once
#include "device.h"
#include "launch_attribute.h"

struct cudaFuncAttributes {
	size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
	int maxThreadsPerBlock, numRegs;
	int ptxVersion, binaryVersion;
	int cacheModeCA;
	int maxDynamicSharedSizeBytes, preferredShmemCarveout;
	int clusterDimMustBeSet;
	int requiredClusterWidth, requiredClusterHeight, requiredClusterDepth;
	int clusterSchedulingPolicyPreference;
	int nonPortableClusterSizeAllowed;
	int reserved[16];
};

enum cudaFuncAttribute {
	cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
	cudaFuncAttributePreferredSharedMemoryCarveout = 9,
	cudaFuncAttributeClusterDimMustBeSet = 10,
	cudaFuncAttributeRequiredClusterWidth = 11,
	cudaFuncAttributeRequiredClusterHeight = 12,
	cudaFuncAttributeRequiredClusterDepth = 13,
	cudaFuncAttributeNonPortableClusterSizeAllowed = 14,
	cudaFuncAttributeClusterSchedulingPolicyPreference = 15,
	cudaFuncAttributeMax
};

enum cudaSharedCarveout {
	cudaSharedmemCarveoutDefault = -1,
	cudaSharedmemCarveoutMaxL1 = 0,
	cudaSharedmemCarveoutMaxShared = 100
};

// Scopes in which a kernel synchronizes
enum cudaCGScope { cudaCGScopeInvalid = 0, cudaCGScopeGrid = 1, cudaCGScopeReserved = 2 };

// A kernel is given by its host function, or by its handle.
CUDART_API(cudaFuncGetAttributes, (struct cudaFuncAttributes *, const void *kernel))
CUDART_API(cudaFuncSetAttribute, (const void *kernel, enum cudaFuncAttribute, int value))
CUDART_API(cudaKernelSetAttributeForDevice, (cudaKernel_t, enum cudaFuncAttribute, int value, int device))
CUDART_API(cudaFuncSetCacheConfig, (const void *kernel, enum cudaFuncCache))
CUDART_API(cudaFuncSetSharedMemConfig, (const void *kernel, enum cudaSharedMemConfig))
CUDART_API(cudaFuncGetName, (const char **name, const void *kernel))
CUDART_API(cudaFuncGetParamInfo, (const void *kernel, size_t index, size_t *offset, size_t *size))
CUDART_API(cudaGetFuncBySymbol, (cudaFunction_t *, const void *kernel))
CUDART_API(cudaGetKernel, (cudaKernel_t *, const void *kernel))

// Launches
typedef struct cudaLaunchConfig_st {
	dim3 gridDim, blockDim;
	size_t dynamicSmemBytes;
	cudaStream_t stream;
	cudaLaunchAttribute *attrs;
	unsigned int numAttrs;
} cudaLaunchConfig_t;

CUDART_API(cudaLaunchKernel, (const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t))
CUDART_API(cudaLaunchKernelExC, (const cudaLaunchConfig_t *, const void *kernel, void **arguments))
CUDART_API(cudaLaunchCooperativeKernel,
	   (const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t))

// Occupancy
#define cudaOccupancyDefault 0x00
#define cudaOccupancyDisableCachingOverride 0x01

CUDART_API(cudaOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, const void *kernel, int threads, size_t shared))
CUDART_API(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	   (int *blocks, const void *kernel, int threads, size_t shared, unsigned int flags))
CUDART_API(cudaOccupancyAvailableDynamicSMemPerBlock, (size_t * shared, const void *kernel, int blocks, int threads))
CUDART_API(cudaOccupancyMaxPotentialClusterSize, (int *blocks, const void *kernel, const cudaLaunchConfig_t *))
CUDART_API(cudaOccupancyMaxActiveClusters, (int *clusters, const void *kernel, const cudaLaunchConfig_t *))
