// Declares device, host and managed memory, functions that set memory, and attributes of pointers.
#pragma once
#include "result.h"

typedef enum CUmemorytype_enum {
	CU_MEMORYTYPE_HOST = 1,
	CU_MEMORYTYPE_DEVICE = 2,
	CU_MEMORYTYPE_ARRAY = 3,
	CU_MEMORYTYPE_UNIFIED = 4
} CUmemorytype;

typedef enum CUmemLocationType_enum {
	CU_MEM_LOCATION_TYPE_INVALID = 0,
	CU_MEM_LOCATION_TYPE_NONE = 0,
	CU_MEM_LOCATION_TYPE_DEVICE = 1,
	CU_MEM_LOCATION_TYPE_HOST = 2,
	CU_MEM_LOCATION_TYPE_HOST_NUMA = 3,
	CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT = 4,
	CU_MEM_LOCATION_TYPE_MAX = 0x7fffffff
} CUmemLocationType;

typedef struct CUmemLocation_st {
	CUmemLocationType type;
	int id;
} CUmemLocation_v1;
typedef CUmemLocation_v1 CUmemLocation;

CU_API(cuMemGetInfo_v2, (size_t * free, size_t *total))
CU_API(cuMemAlloc_v2, (CUdeviceptr *, size_t))
CU_API(cuMemAllocPitch_v2, (CUdeviceptr *, size_t *pitch, size_t width, size_t height, unsigned int element))
CU_API(cuMemFree_v2, (CUdeviceptr))
CU_API(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t *size, CUdeviceptr))

// Host memory
#define CU_MEMHOSTALLOC_PORTABLE 0x01
#define CU_MEMHOSTALLOC_DEVICEMAP 0x02
#define CU_MEMHOSTALLOC_WRITECOMBINED 0x04
#define CU_MEMHOSTREGISTER_PORTABLE 0x01
#define CU_MEMHOSTREGISTER_DEVICEMAP 0x02
#define CU_MEMHOSTREGISTER_IOMEMORY 0x04
#define CU_MEMHOSTREGISTER_READ_ONLY 0x08

CU_API(cuMemAllocHost_v2, (void **, size_t))
CU_API(cuMemFreeHost, (void *))
CU_API(cuMemHostAlloc, (void **, size_t, unsigned int flags))
CU_API(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned int flags))
CU_API(cuMemHostGetFlags, (unsigned int *, void *))
CU_API(cuMemHostRegister_v2, (void *, size_t, unsigned int flags))
CU_API(cuMemHostUnregister, (void *))

// Managed memory
typedef enum CUmemAttach_flags_enum {
	CU_MEM_ATTACH_GLOBAL = 0x1,
	CU_MEM_ATTACH_HOST = 0x2,
	CU_MEM_ATTACH_SINGLE = 0x4
} CUmemAttach_flags;

typedef enum CUmem_advise_enum {
	CU_MEM_ADVISE_SET_READ_MOSTLY = 1,
	CU_MEM_ADVISE_UNSET_READ_MOSTLY = 2,
	CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3,
	CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 4,
	CU_MEM_ADVISE_SET_ACCESSED_BY = 5,
	CU_MEM_ADVISE_UNSET_ACCESSED_BY = 6
} CUmem_advise;

typedef enum CUmem_range_attribute_enum {
	CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY = 1,
	CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION = 2,
	CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY = 3,
	CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION = 4,
	CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE = 5,
	CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID = 6,
	CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE = 7,
	CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID = 8
} CUmem_range_attribute;

CU_API(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int flags))
CU_API(cuMemAdvise, (CUdeviceptr, size_t, CUmem_advise, CUdevice))
CU_API(cuMemAdvise_v2, (CUdeviceptr, size_t, CUmem_advise, CUmemLocation))
CU_API_PTSZ(cuMemPrefetchAsync, (CUdeviceptr, size_t, CUdevice, CUstream))
CU_API_PTSZ(cuMemPrefetchAsync_v2, (CUdeviceptr, size_t, CUmemLocation, unsigned int flags, CUstream))
CU_API_PTSZ(cuMemPrefetchBatchAsync, (CUdeviceptr *, size_t *sizes, size_t count, CUmemLocation *, size_t *first,
				      size_t locations, unsigned long long flags, CUstream))
CU_API_PTSZ(cuMemDiscardBatchAsync, (CUdeviceptr *, size_t *sizes, size_t count, unsigned long long flags, CUstream))
CU_API_PTSZ(cuMemDiscardAndPrefetchBatchAsync, (CUdeviceptr *, size_t *sizes, size_t count, CUmemLocation *,
						size_t *first, size_t locations, unsigned long long flags, CUstream))
CU_API(cuMemRangeGetAttribute, (void *data, size_t size, CUmem_range_attribute, CUdeviceptr, size_t count))
CU_API(cuMemRangeGetAttributes,
       (void **data, size_t *sizes, CUmem_range_attribute *, size_t attributes, CUdeviceptr, size_t count))
CU_API_PTSZ(cuStreamAttachMemAsync, (CUstream, CUdeviceptr, size_t, unsigned int flags))

// Setting memory. N is a number of elements; the pitch is in bytes.
CU_API_PTDS(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t N))
CU_API_PTDS(cuMemsetD16_v2, (CUdeviceptr, unsigned short, size_t N))
CU_API_PTDS(cuMemsetD32_v2, (CUdeviceptr, unsigned int, size_t N))
CU_API_PTDS(cuMemsetD2D8_v2, (CUdeviceptr, size_t pitch, unsigned char, size_t width, size_t height))
CU_API_PTDS(cuMemsetD2D16_v2, (CUdeviceptr, size_t pitch, unsigned short, size_t width, size_t height))
CU_API_PTDS(cuMemsetD2D32_v2, (CUdeviceptr, size_t pitch, unsigned int, size_t width, size_t height))
CU_API_PTSZ(cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t N, CUstream))
CU_API_PTSZ(cuMemsetD16Async, (CUdeviceptr, unsigned short, size_t N, CUstream))
CU_API_PTSZ(cuMemsetD32Async, (CUdeviceptr, unsigned int, size_t N, CUstream))
CU_API_PTSZ(cuMemsetD2D8Async, (CUdeviceptr, size_t pitch, unsigned char, size_t width, size_t height, CUstream))
CU_API_PTSZ(cuMemsetD2D16Async, (CUdeviceptr, size_t pitch, unsigned short, size_t width, size_t height, CUstream))
CU_API_PTSZ(cuMemsetD2D32Async, (CUdeviceptr, size_t pitch, unsigned int, size_t width, size_t height, CUstream))

// Pointers
typedef enum CUpointer_attribute_enum {
	CU_POINTER_ATTRIBUTE_CONTEXT = 1,
	CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
	CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
	CU_POINTER_ATTRIBUTE_P2P_TOKENS = 5,
	CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
	CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
	CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
	CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
	CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
	CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
	CU_POINTER_ATTRIBUTE_MAPPED = 13,
	CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
	CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,
	CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
	CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
	CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,
	CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19,
	CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20,
	CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE = 21
} CUpointer_attribute;

typedef enum CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS_enum {
	CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE = 0,
	CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ = 1,
	CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE = 3
} CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS;

CU_API(cuPointerGetAttribute, (void *data, CUpointer_attribute, CUdeviceptr))
CU_API(cuPointerGetAttributes, (unsigned int count, CUpointer_attribute *, void **data, CUdeviceptr))
CU_API(cuPointerSetAttribute, (const void *value, CUpointer_attribute, CUdeviceptr))

// Flushing of writes that other devices made over PCIe
typedef enum CUflushGPUDirectRDMAWritesTarget_enum {
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX = 0
} CUflushGPUDirectRDMAWritesTarget;

typedef enum CUflushGPUDirectRDMAWritesScope_enum {
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER = 100,
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES = 200
} CUflushGPUDirectRDMAWritesScope;

CU_API(cuFlushGPUDirectRDMAWrites, (CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope))
