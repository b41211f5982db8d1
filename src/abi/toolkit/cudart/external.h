// Declares access to memory and events of other processes and libraries: CUDA IPC, external memory, graphics resources.
#pragma once
#include "array.h"

#define CUDA_IPC_HANDLE_SIZE 64
#define cudaIpcMemLazyEnablePeerAccess 0x01

typedef struct cudaIpcEventHandle_st {
	char reserved[CUDA_IPC_HANDLE_SIZE];
} cudaIpcEventHandle_t;

typedef struct cudaIpcMemHandle_st {
	char reserved[CUDA_IPC_HANDLE_SIZE];
} cudaIpcMemHandle_t;

CUDART_API(cudaIpcGetEventHandle, (cudaIpcEventHandle_t *, cudaEvent_t))
CUDART_API(cudaIpcOpenEventHandle, (cudaEvent_t *, cudaIpcEventHandle_t))
CUDART_API(cudaIpcGetMemHandle, (cudaIpcMemHandle_t *, void *address))
CUDART_API(cudaIpcOpenMemHandle, (void **address, cudaIpcMemHandle_t, unsigned int flags))
CUDART_API(cudaIpcCloseMemHandle, (void *address))

// External memory
#define cudaExternalMemoryDedicated 0x1

enum cudaExternalMemoryHandleType {
	cudaExternalMemoryHandleTypeOpaqueFd = 1,
	cudaExternalMemoryHandleTypeOpaqueWin32 = 2,
	cudaExternalMemoryHandleTypeOpaqueWin32Kmt = 3,
	cudaExternalMemoryHandleTypeD3D12Heap = 4,
	cudaExternalMemoryHandleTypeD3D12Resource = 5,
	cudaExternalMemoryHandleTypeD3D11Resource = 6,
	cudaExternalMemoryHandleTypeD3D11ResourceKmt = 7,
	cudaExternalMemoryHandleTypeNvSciBuf = 8
};

struct cudaExternalMemoryHandleDesc {
	enum cudaExternalMemoryHandleType type;
	union {
		int fd;
		struct {
			void *handle;
			const void *name;
		} win32;
		const void *nvSciBufObject;
	} handle;
	unsigned long long size;
	unsigned int flags;
	unsigned int reserved[16];
};

struct cudaExternalMemoryBufferDesc {
	unsigned long long offset, size;
	unsigned int flags;
	unsigned int reserved[16];
};

struct cudaExternalMemoryMipmappedArrayDesc {
	unsigned long long offset;
	struct cudaChannelFormatDesc formatDesc;
	struct cudaExtent extent;
	unsigned int flags, numLevels;
	unsigned int reserved[16];
};

CUDART_API(cudaImportExternalMemory, (cudaExternalMemory_t *, const struct cudaExternalMemoryHandleDesc *))
CUDART_API(cudaExternalMemoryGetMappedBuffer,
	   (void **address, cudaExternalMemory_t, const struct cudaExternalMemoryBufferDesc *))
CUDART_API(cudaExternalMemoryGetMappedMipmappedArray,
	   (cudaMipmappedArray_t *, cudaExternalMemory_t, const struct cudaExternalMemoryMipmappedArrayDesc *))
CUDART_API(cudaDestroyExternalMemory, (cudaExternalMemory_t))

// External semaphores
#define cudaExternalSemaphoreSignalSkipNvSciBufMemSync 0x01
#define cudaExternalSemaphoreWaitSkipNvSciBufMemSync 0x02
#define cudaNvSciSyncAttrSignal 0x1
#define cudaNvSciSyncAttrWait 0x2

enum cudaExternalSemaphoreHandleType {
	cudaExternalSemaphoreHandleTypeOpaqueFd = 1,
	cudaExternalSemaphoreHandleTypeOpaqueWin32 = 2,
	cudaExternalSemaphoreHandleTypeOpaqueWin32Kmt = 3,
	cudaExternalSemaphoreHandleTypeD3D12Fence = 4,
	cudaExternalSemaphoreHandleTypeD3D11Fence = 5,
	cudaExternalSemaphoreHandleTypeNvSciSync = 6,
	cudaExternalSemaphoreHandleTypeKeyedMutex = 7,
	cudaExternalSemaphoreHandleTypeKeyedMutexKmt = 8,
	cudaExternalSemaphoreHandleTypeTimelineSemaphoreFd = 9,
	cudaExternalSemaphoreHandleTypeTimelineSemaphoreWin32 = 10
};

struct cudaExternalSemaphoreHandleDesc {
	enum cudaExternalSemaphoreHandleType type;
	union {
		int fd;
		struct {
			void *handle;
			const void *name;
		} win32;
		const void *nvSciSyncObj;
	} handle;
	unsigned int flags;
	unsigned int reserved[16];
};

struct cudaExternalSemaphoreSignalParams {
	struct {
		struct {
			unsigned long long value;
		} fence;
		union {
			void *fence;
			unsigned long long reserved;
		} nvSciSync;
		struct {
			unsigned long long key;
		} keyedMutex;
		unsigned int reserved[12];
	} params;
	unsigned int flags;
	unsigned int reserved[16];
};

struct cudaExternalSemaphoreWaitParams {
	struct {
		struct {
			unsigned long long value;
		} fence;
		union {
			void *fence;
			unsigned long long reserved;
		} nvSciSync;
		struct {
			unsigned long long key;
			unsigned int timeoutMs;
		} keyedMutex;
		unsigned int reserved[10];
	} params;
	unsigned int flags;
	unsigned int reserved[16];
};

CUDART_API(cudaImportExternalSemaphore, (cudaExternalSemaphore_t *, const struct cudaExternalSemaphoreHandleDesc *))
CUDART_API(cudaSignalExternalSemaphoresAsync,
	   (const cudaExternalSemaphore_t *, const struct cudaExternalSemaphoreSignalParams *, unsigned int count,
	    cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaWaitExternalSemaphoresAsync,
	   (const cudaExternalSemaphore_t *, const struct cudaExternalSemaphoreWaitParams *, unsigned int count,
	    cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaDestroyExternalSemaphore, (cudaExternalSemaphore_t))

// Graphics resources
enum cudaGraphicsRegisterFlags {
	cudaGraphicsRegisterFlagsNone = 0,
	cudaGraphicsRegisterFlagsReadOnly = 1,
	cudaGraphicsRegisterFlagsWriteDiscard = 2,
	cudaGraphicsRegisterFlagsSurfaceLoadStore = 4,
	cudaGraphicsRegisterFlagsTextureGather = 8
};

enum cudaGraphicsMapFlags {
	cudaGraphicsMapFlagsNone = 0,
	cudaGraphicsMapFlagsReadOnly = 1,
	cudaGraphicsMapFlagsWriteDiscard = 2
};

enum cudaGraphicsCubeFace {
	cudaGraphicsCubeFacePositiveX = 0x00,
	cudaGraphicsCubeFaceNegativeX = 0x01,
	cudaGraphicsCubeFacePositiveY = 0x02,
	cudaGraphicsCubeFaceNegativeY = 0x03,
	cudaGraphicsCubeFacePositiveZ = 0x04,
	cudaGraphicsCubeFaceNegativeZ = 0x05
};

CUDART_API(cudaGraphicsUnregisterResource, (cudaGraphicsResource_t))
CUDART_API(cudaGraphicsResourceSetMapFlags, (cudaGraphicsResource_t, unsigned int flags))
CUDART_API(cudaGraphicsMapResources, (int count, cudaGraphicsResource_t *, cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaGraphicsUnmapResources, (int count, cudaGraphicsResource_t *, cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaGraphicsResourceGetMappedPointer, (void **address, size_t *size, cudaGraphicsResource_t))
CUDART_API(cudaGraphicsSubResourceGetMappedArray,
	   (cudaArray_t *, cudaGraphicsResource_t, unsigned int index, unsigned int level))
CUDART_API(cudaGraphicsResourceGetMappedMipmappedArray, (cudaMipmappedArray_t *, cudaGraphicsResource_t))
