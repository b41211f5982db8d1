// Declares device, host and managed memory.
#pragma once
#include "stream.h"

enum cudaMemoryType {
	cudaMemoryTypeUnregistered = 0,
	cudaMemoryTypeHost = 1,
	cudaMemoryTypeDevice = 2,
	cudaMemoryTypeManaged = 3
};

enum cudaMemLocationType {
	cudaMemLocationTypeInvalid = 0,
	cudaMemLocationTypeNone = 0,
	cudaMemLocationTypeDevice = 1,
	cudaMemLocationTypeHost = 2,
	cudaMemLocationTypeHostNuma = 3,
	cudaMemLocationTypeHostNumaCurrent = 4
};

struct cudaMemLocation {
	enum cudaMemLocationType type;
	int id;
};

struct cudaPointerAttributes {
	enum cudaMemoryType type;
	int device;
	void *devicePointer, *hostPointer;
	long reserved[8];
};

// The width is in elements for an array, and in bytes for other memory.
struct cudaExtent {
	size_t width, height, depth;
};

struct cudaPos {
	size_t x, y, z;
};

struct cudaPitchedPtr {
	void *ptr;
	size_t pitch, xsize, ysize;
};

CUDART_API(cudaMemGetInfo, (size_t * free, size_t *total))
CUDART_API(cudaPointerGetAttributes, (struct cudaPointerAttributes *, const void *address))

// Device memory
CUDART_API(cudaMalloc, (void **address, size_t size))
CUDART_API(cudaMallocPitch, (void **address, size_t *pitch, size_t width, size_t height))
CUDART_API(cudaMalloc3D, (struct cudaPitchedPtr *, struct cudaExtent))
CUDART_API(cudaFree, (void *address))

// Host memory
#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01
#define cudaHostAllocMapped 0x02
#define cudaHostAllocWriteCombined 0x04
#define cudaHostRegisterDefault 0x00
#define cudaHostRegisterPortable 0x01
#define cudaHostRegisterMapped 0x02
#define cudaHostRegisterIoMemory 0x04
#define cudaHostRegisterReadOnly 0x08

CUDART_API(cudaMallocHost, (void **address, size_t size))
CUDART_API(cudaHostAlloc, (void **address, size_t size, unsigned int flags))
CUDART_API(cudaFreeHost, (void *address))
CUDART_API(cudaHostRegister, (void *address, size_t size, unsigned int flags))
CUDART_API(cudaHostUnregister, (void *address))
CUDART_API(cudaHostGetDevicePointer, (void **device, void *host, unsigned int flags))
CUDART_API(cudaHostGetFlags, (unsigned int *flags, void *address))

// Managed memory
enum cudaMemoryAdvise {
	cudaMemAdviseSetReadMostly = 1,
	cudaMemAdviseUnsetReadMostly = 2,
	cudaMemAdviseSetPreferredLocation = 3,
	cudaMemAdviseUnsetPreferredLocation = 4,
	cudaMemAdviseSetAccessedBy = 5,
	cudaMemAdviseUnsetAccessedBy = 6
};

enum cudaMemRangeAttribute {
	cudaMemRangeAttributeReadMostly = 1,
	cudaMemRangeAttributePreferredLocation = 2,
	cudaMemRangeAttributeAccessedBy = 3,
	cudaMemRangeAttributeLastPrefetchLocation = 4,
	cudaMemRangeAttributePreferredLocationType = 5,
	cudaMemRangeAttributePreferredLocationId = 6,
	cudaMemRangeAttributeLastPrefetchLocationType = 7,
	cudaMemRangeAttributeLastPrefetchLocationId = 8
};

CUDART_API(cudaMallocManaged, (void **address, size_t size, unsigned int flags CUDART_DEFAULT(cudaMemAttachGlobal)))
CUDART_API(cudaMemAdvise, (const void *address, size_t size, enum cudaMemoryAdvise, struct cudaMemLocation))
CUDART_API(cudaMemRangeGetAttribute,
	   (void *data, size_t data_size, enum cudaMemRangeAttribute, const void *address, size_t size))
CUDART_API(cudaMemRangeGetAttributes, (void **data, size_t *data_sizes, enum cudaMemRangeAttribute *, size_t count,
				       const void *address, size_t size))
CUDART_API(cudaMemPrefetchAsync, (const void *address, size_t size, struct cudaMemLocation, unsigned int flags,
				  cudaStream_t stream CUDART_DEFAULT(0)))

// Element i of the locations applies to the ranges from number indices[i] up to, but not including, the next index.
CUDART_API(cudaMemPrefetchBatchAsync, (void **addresses, size_t *sizes, size_t count, struct cudaMemLocation *,
				       size_t *indices, size_t locations, unsigned long long flags, cudaStream_t))
CUDART_API(cudaMemDiscardBatchAsync,
	   (void **addresses, size_t *sizes, size_t count, unsigned long long flags, cudaStream_t))
CUDART_API(cudaMemDiscardAndPrefetchBatchAsync,
	   (void **addresses, size_t *sizes, size_t count, struct cudaMemLocation *, size_t *indices, size_t locations,
	    unsigned long long flags, cudaStream_t))
