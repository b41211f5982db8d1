// Declares memory pools and stream-ordered allocations.
#pragma once
#include "memory.h"

enum cudaMemAllocationType {
	cudaMemAllocationTypeInvalid = 0x0,
	cudaMemAllocationTypePinned = 0x1,
	cudaMemAllocationTypeManaged = 0x2,
	cudaMemAllocationTypeMax = 0x7fffffff
};

enum cudaMemAllocationHandleType {
	cudaMemHandleTypeNone = 0x0,
	cudaMemHandleTypePosixFileDescriptor = 0x1,
	cudaMemHandleTypeWin32 = 0x2,
	cudaMemHandleTypeWin32Kmt = 0x4,
	cudaMemHandleTypeFabric = 0x8
};

enum cudaMemAccessFlags {
	cudaMemAccessFlagsProtNone = 0,
	cudaMemAccessFlagsProtRead = 1,
	cudaMemAccessFlagsProtReadWrite = 3
};

enum cudaMemPoolAttr {
	cudaMemPoolReuseFollowEventDependencies = 1,
	cudaMemPoolReuseAllowOpportunistic = 2,
	cudaMemPoolReuseAllowInternalDependencies = 3,
	cudaMemPoolAttrReleaseThreshold = 4,
	cudaMemPoolAttrReservedMemCurrent = 5,
	cudaMemPoolAttrReservedMemHigh = 6,
	cudaMemPoolAttrUsedMemCurrent = 7,
	cudaMemPoolAttrUsedMemHigh = 8
};

#define cudaMemPoolCreateUsageHwDecompress 0x2

struct cudaMemAccessDesc {
	struct cudaMemLocation location;
	enum cudaMemAccessFlags flags;
};

struct cudaMemPoolProps {
	enum cudaMemAllocationType allocType;
	enum cudaMemAllocationHandleType handleTypes;
	struct cudaMemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
};

struct cudaMemPoolPtrExportData {
	unsigned char reserved[64];
};

typedef struct cudaMemFabricHandle_st {
	char reserved[64];
} cudaMemFabricHandle_t;

CUDART_API(cudaMallocAsync, (void **address, size_t size, cudaStream_t))
CUDART_API(cudaMallocFromPoolAsync, (void **address, size_t size, cudaMemPool_t, cudaStream_t))
CUDART_API(cudaFreeAsync, (void *address, cudaStream_t))

CUDART_API(cudaMemPoolCreate, (cudaMemPool_t *, const struct cudaMemPoolProps *))
CUDART_API(cudaMemPoolDestroy, (cudaMemPool_t))
CUDART_API(cudaMemPoolTrimTo, (cudaMemPool_t, size_t keep))
CUDART_API(cudaMemPoolSetAttribute, (cudaMemPool_t, enum cudaMemPoolAttr, void *value))
CUDART_API(cudaMemPoolGetAttribute, (cudaMemPool_t, enum cudaMemPoolAttr, void *value))
CUDART_API(cudaMemPoolSetAccess, (cudaMemPool_t, const struct cudaMemAccessDesc *, size_t count))
CUDART_API(cudaMemPoolGetAccess, (enum cudaMemAccessFlags *, cudaMemPool_t, struct cudaMemLocation *))

// The current and default pool of a device or location
CUDART_API(cudaDeviceGetDefaultMemPool, (cudaMemPool_t *, int device))
CUDART_API(cudaDeviceGetMemPool, (cudaMemPool_t *, int device))
CUDART_API(cudaDeviceSetMemPool, (int device, cudaMemPool_t))
CUDART_API(cudaMemGetDefaultMemPool, (cudaMemPool_t *, struct cudaMemLocation *, enum cudaMemAllocationType))
CUDART_API(cudaMemGetMemPool, (cudaMemPool_t *, struct cudaMemLocation *, enum cudaMemAllocationType))
CUDART_API(cudaMemSetMemPool, (struct cudaMemLocation *, enum cudaMemAllocationType, cudaMemPool_t))

// Sharing pools with other processes. On Linux the handle is a file descriptor. An export gets the address of an int
// for it, and an import gets its value, cast to a pointer.
CUDART_API(cudaMemPoolExportToShareableHandle,
	   (void *handle, cudaMemPool_t, enum cudaMemAllocationHandleType, unsigned int flags))
CUDART_API(cudaMemPoolImportFromShareableHandle,
	   (cudaMemPool_t *, void *handle, enum cudaMemAllocationHandleType, unsigned int flags))
CUDART_API(cudaMemPoolExportPointer, (struct cudaMemPoolPtrExportData *, void *address))
CUDART_API(cudaMemPoolImportPointer, (void **address, cudaMemPool_t, struct cudaMemPoolPtrExportData *))
