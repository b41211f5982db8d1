// Declares virtual memory management (address ranges, physical memory, mappings), multicast objects and memory pools.
#pragma once
#include "memory.h"

typedef enum CUmemAllocationHandleType_enum {
	CU_MEM_HANDLE_TYPE_NONE = 0x0,
	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 0x1,
	CU_MEM_HANDLE_TYPE_WIN32 = 0x2,
	CU_MEM_HANDLE_TYPE_WIN32_KMT = 0x4,
	CU_MEM_HANDLE_TYPE_FABRIC = 0x8,
	CU_MEM_HANDLE_TYPE_MAX = 0x7fffffff
} CUmemAllocationHandleType;

typedef enum CUmemAllocationType_enum {
	CU_MEM_ALLOCATION_TYPE_INVALID = 0,
	CU_MEM_ALLOCATION_TYPE_PINNED = 1,
	CU_MEM_ALLOCATION_TYPE_MANAGED = 2,
	CU_MEM_ALLOCATION_TYPE_MAX = 0x7fffffff
} CUmemAllocationType;

typedef enum CUmemAllocationGranularity_flags_enum {
	CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
	CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1
} CUmemAllocationGranularity_flags;

typedef enum CUmemAccess_flags_enum {
	CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
	CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
	CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
	CU_MEM_ACCESS_FLAGS_PROT_MAX = 0x7fffffff
} CUmemAccess_flags;

typedef enum CUmemAllocationCompType_enum {
	CU_MEM_ALLOCATION_COMP_NONE = 0,
	CU_MEM_ALLOCATION_COMP_GENERIC = 1
} CUmemAllocationCompType;

#define CU_MEM_CREATE_USAGE_TILE_POOL 0x1
#define CU_MEM_CREATE_USAGE_HW_DECOMPRESS 0x2

typedef struct CUmemAllocationProp_st {
	CUmemAllocationType type;
	CUmemAllocationHandleType requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp_v1;
typedef CUmemAllocationProp_v1 CUmemAllocationProp;

typedef struct CUmemAccessDesc_st {
	CUmemLocation location;
	CUmemAccess_flags flags;
} CUmemAccessDesc_v1;
typedef CUmemAccessDesc_v1 CUmemAccessDesc;

typedef struct CUmemFabricHandle_st {
	unsigned char data[64];
} CUmemFabricHandle_v1;
typedef CUmemFabricHandle_v1 CUmemFabricHandle;

CU_API(cuMemAddressReserve, (CUdeviceptr *, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags))
CU_API(cuMemAddressFree, (CUdeviceptr, size_t))
CU_API(cuMemCreate, (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long flags))
CU_API(cuMemRelease, (CUmemGenericAllocationHandle))
CU_API(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *, void *address))
CU_API(cuMemMap, (CUdeviceptr, size_t size, size_t offset, CUmemGenericAllocationHandle, unsigned long long flags))
CU_API(cuMemUnmap, (CUdeviceptr, size_t))
CU_API(cuMemSetAccess, (CUdeviceptr, size_t size, const CUmemAccessDesc *, size_t count))
CU_API(cuMemGetAccess, (unsigned long long *flags, const CUmemLocation *, CUdeviceptr))
CU_API(cuMemGetAllocationGranularity, (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags))
CU_API(cuMemGetAllocationPropertiesFromHandle, (CUmemAllocationProp *, CUmemGenericAllocationHandle))
CU_API(cuMemExportToShareableHandle,
       (void *shareable, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long flags))
CU_API(cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle *, void *shareable, CUmemAllocationHandleType))

typedef enum CUmemRangeHandleType_enum {
	CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 0x1,
	CU_MEM_RANGE_HANDLE_TYPE_MAX = 0x7fffffff
} CUmemRangeHandleType;

typedef enum CUmemRangeFlags_enum { CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE = 0x1 } CUmemRangeFlags;

CU_API(cuMemGetHandleForAddressRange,
       (void *handle, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long flags))

// Multicast objects
typedef enum CUmulticastGranularity_flags_enum {
	CU_MULTICAST_GRANULARITY_MINIMUM = 0,
	CU_MULTICAST_GRANULARITY_RECOMMENDED = 1
} CUmulticastGranularity_flags;

typedef struct CUmulticastObjectProp_st {
	unsigned int numDevices;
	size_t size;
	unsigned long long handleTypes;
	unsigned long long flags;
} CUmulticastObjectProp_v1;
typedef CUmulticastObjectProp_v1 CUmulticastObjectProp;

CU_API(cuMulticastCreate, (CUmemGenericAllocationHandle *, const CUmulticastObjectProp *))
CU_API(cuMulticastAddDevice, (CUmemGenericAllocationHandle, CUdevice))
CU_API(cuMulticastBindMem, (CUmemGenericAllocationHandle multicast, size_t offset, CUmemGenericAllocationHandle memory,
			    size_t memory_offset, size_t size, unsigned long long flags))
CU_API(cuMulticastBindAddr,
       (CUmemGenericAllocationHandle multicast, size_t offset, CUdeviceptr, size_t size, unsigned long long flags))
CU_API(cuMulticastUnbind, (CUmemGenericAllocationHandle multicast, CUdevice, size_t offset, size_t size))
CU_API(cuMulticastGetGranularity, (size_t *, const CUmulticastObjectProp *, CUmulticastGranularity_flags))

// Memory pools
typedef enum CUmemPool_attribute_enum {
	CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
	CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
	CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
	CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH = 6,
	CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
	CU_MEMPOOL_ATTR_USED_MEM_HIGH = 8
} CUmemPool_attribute;

typedef struct CUmemPoolProps_st {
	CUmemAllocationType allocType;
	CUmemAllocationHandleType handleTypes;
	CUmemLocation location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
} CUmemPoolProps_v1;
typedef CUmemPoolProps_v1 CUmemPoolProps;

typedef struct CUmemPoolPtrExportData_st {
	unsigned char reserved[64];
} CUmemPoolPtrExportData_v1;
typedef CUmemPoolPtrExportData_v1 CUmemPoolPtrExportData;

CU_API_PTSZ(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))
CU_API_PTSZ(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream))
CU_API_PTSZ(cuMemFreeAsync, (CUdeviceptr, CUstream))
CU_API(cuMemPoolCreate, (CUmemoryPool *, const CUmemPoolProps *))
CU_API(cuMemPoolDestroy, (CUmemoryPool))
CU_API(cuMemPoolTrimTo, (CUmemoryPool, size_t keep))
CU_API(cuMemPoolGetAttribute, (CUmemoryPool, CUmemPool_attribute, void *))
CU_API(cuMemPoolSetAttribute, (CUmemoryPool, CUmemPool_attribute, void *))
CU_API(cuMemPoolGetAccess, (CUmemAccess_flags *, CUmemoryPool, CUmemLocation *))
CU_API(cuMemPoolSetAccess, (CUmemoryPool, const CUmemAccessDesc *, size_t count))
CU_API(cuMemPoolExportToShareableHandle,
       (void *shareable, CUmemoryPool, CUmemAllocationHandleType, unsigned long long flags))
CU_API(cuMemPoolImportFromShareableHandle,
       (CUmemoryPool *, void *shareable, CUmemAllocationHandleType, unsigned long long flags))
CU_API(cuMemPoolExportPointer, (CUmemPoolPtrExportData *, CUdeviceptr))
CU_API(cuMemPoolImportPointer, (CUdeviceptr *, CUmemoryPool, CUmemPoolPtrExportData *))
CU_API(cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice))
CU_API(cuDeviceGetMemPool, (CUmemoryPool *, CUdevice))
CU_API(cuDeviceSetMemPool, (CUdevice, CUmemoryPool))
CU_API(cuMemGetDefaultMemPool, (CUmemoryPool *, CUmemLocation *, CUmemAllocationType))
CU_API(cuMemGetMemPool, (CUmemoryPool *, CUmemLocation *, CUmemAllocationType))
CU_API(cuMemSetMemPool, (CUmemLocation *, CUmemAllocationType, CUmemoryPool))

// Decompression of data by the device
typedef enum CUmemDecompressAlgorithm_enum {
	CU_MEM_DECOMPRESS_UNSUPPORTED = 0,
	CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE = 1 << 0,
	CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY = 1 << 1,
	CU_MEM_DECOMPRESS_ALGORITHM_LZ4 = 1 << 2
} CUmemDecompressAlgorithm;

typedef struct CUmemDecompressParams_st {
	size_t srcNumBytes, dstNumBytes;
	cuuint32_t *dstActBytes;
	const void *src;
	void *dst;
	CUmemDecompressAlgorithm algo;
	unsigned char padding[20];
} CUmemDecompressParams;

CU_API_PTSZ(cuMemBatchDecompressAsync,
	    (CUmemDecompressParams *, size_t count, unsigned int flags, size_t *failed, CUstream))
