// Functions that later versions replace. The driver still exports them for old programs. Those of version 1 of the API
// have device pointers and sizes of 32 bits.
#pragma once
#include "graph.h"
#include "module.h"
#include "texture.h"

typedef struct CUDA_ARRAY_DESCRIPTOR_v1_st {
	unsigned int Width, Height;
	CUarray_format Format;
	unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v1;

typedef struct CUDA_ARRAY3D_DESCRIPTOR_v1_st {
	unsigned int Width, Height, Depth;
	CUarray_format Format;
	unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;

typedef struct CUDA_MEMCPY2D_v1_st {
	unsigned int srcXInBytes, srcY;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr_v1 srcDevice;
	CUarray srcArray;
	unsigned int srcPitch;

	unsigned int dstXInBytes, dstY;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr_v1 dstDevice;
	CUarray dstArray;
	unsigned int dstPitch;

	unsigned int WidthInBytes, Height;
} CUDA_MEMCPY2D_v1;

typedef struct CUDA_MEMCPY3D_v1_st {
	unsigned int srcXInBytes, srcY, srcZ, srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr_v1 srcDevice;
	CUarray srcArray;
	void *reserved0;
	unsigned int srcPitch, srcHeight;

	unsigned int dstXInBytes, dstY, dstZ, dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr_v1 dstDevice;
	CUarray dstArray;
	void *reserved1;
	unsigned int dstPitch, dstHeight;

	unsigned int WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_v1;

// Functions for the driver, devices and contexts
CU_API(cuGetProcAddress, (const char *symbol, void **function, int version, cuuint64_t flags))
CU_API(cuDeviceTotalMem, (unsigned int *, CUdevice))
CU_API(cuCtxCreate, (CUcontext *, unsigned int flags, CUdevice))
CU_API(cuCtxDestroy, (CUcontext))
CU_API(cuCtxPushCurrent, (CUcontext))
CU_API(cuCtxPopCurrent, (CUcontext *))
CU_API(cuDevicePrimaryCtxRelease, (CUdevice))
CU_API(cuDevicePrimaryCtxReset, (CUdevice))
CU_API(cuDevicePrimaryCtxSetFlags, (CUdevice, unsigned int flags))

// Memory and fills
CU_API(cuMemGetInfo, (unsigned int *free, unsigned int *total))
CU_API(cuMemAlloc, (CUdeviceptr_v1 *, unsigned int))
CU_API(cuMemAllocPitch,
       (CUdeviceptr_v1 *, unsigned int *pitch, unsigned int width, unsigned int height, unsigned int element))
CU_API(cuMemFree, (CUdeviceptr_v1))
CU_API(cuMemGetAddressRange, (CUdeviceptr_v1 * base, unsigned int *size, CUdeviceptr_v1))
CU_API(cuMemAllocHost, (void **, unsigned int))
CU_API(cuMemHostGetDevicePointer, (CUdeviceptr_v1 *, void *, unsigned int flags))
CU_API(cuMemHostRegister, (void *, size_t, unsigned int flags))
CU_API(cuMemsetD8, (CUdeviceptr_v1, unsigned char, unsigned int N))
CU_API(cuMemsetD16, (CUdeviceptr_v1, unsigned short, unsigned int N))
CU_API(cuMemsetD32, (CUdeviceptr_v1, unsigned int, unsigned int N))
CU_API(cuMemsetD2D8, (CUdeviceptr_v1, unsigned int pitch, unsigned char, unsigned int width, unsigned int height))
CU_API(cuMemsetD2D16, (CUdeviceptr_v1, unsigned int pitch, unsigned short, unsigned int width, unsigned int height))
CU_API(cuMemsetD2D32, (CUdeviceptr_v1, unsigned int pitch, unsigned int, unsigned int width, unsigned int height))

// Copies
CU_API(cuMemcpyHtoD, (CUdeviceptr_v1, const void *, unsigned int))
CU_API(cuMemcpyDtoH, (void *, CUdeviceptr_v1, unsigned int))
CU_API(cuMemcpyDtoD, (CUdeviceptr_v1, CUdeviceptr_v1, unsigned int))
CU_API(cuMemcpyDtoA, (CUarray, unsigned int offset, CUdeviceptr_v1, unsigned int))
CU_API(cuMemcpyAtoD, (CUdeviceptr_v1, CUarray, unsigned int offset, unsigned int))
CU_API(cuMemcpyHtoA, (CUarray, unsigned int offset, const void *, unsigned int))
CU_API(cuMemcpyAtoH, (void *, CUarray, unsigned int offset, unsigned int))
CU_API(cuMemcpyAtoA, (CUarray, unsigned int to, CUarray, unsigned int from, unsigned int))
CU_API(cuMemcpyHtoDAsync, (CUdeviceptr_v1, const void *, unsigned int, CUstream))
CU_API(cuMemcpyDtoHAsync, (void *, CUdeviceptr_v1, unsigned int, CUstream))
CU_API(cuMemcpyDtoDAsync, (CUdeviceptr_v1, CUdeviceptr_v1, unsigned int, CUstream))
CU_API(cuMemcpyHtoAAsync, (CUarray, unsigned int offset, const void *, unsigned int, CUstream))
CU_API(cuMemcpyAtoHAsync, (void *, CUarray, unsigned int offset, unsigned int, CUstream))
CU_API(cuMemcpy2D, (const CUDA_MEMCPY2D_v1 *))
CU_API(cuMemcpy2DUnaligned, (const CUDA_MEMCPY2D_v1 *))
CU_API(cuMemcpy2DAsync, (const CUDA_MEMCPY2D_v1 *, CUstream))
CU_API(cuMemcpy3D, (const CUDA_MEMCPY3D_v1 *))
CU_API(cuMemcpy3DAsync, (const CUDA_MEMCPY3D_v1 *, CUstream))

// Arrays, textures, graphics
CU_API(cuArrayCreate, (CUarray *, const CUDA_ARRAY_DESCRIPTOR_v1 *))
CU_API(cuArrayGetDescriptor, (CUDA_ARRAY_DESCRIPTOR_v1 *, CUarray))
CU_API(cuArray3DCreate, (CUarray *, const CUDA_ARRAY3D_DESCRIPTOR_v1 *))
CU_API(cuArray3DGetDescriptor, (CUDA_ARRAY3D_DESCRIPTOR_v1 *, CUarray))
CU_API(cuTexRefSetAddress, (unsigned int *offset, CUtexref, CUdeviceptr_v1, unsigned int))
CU_API(cuTexRefSetAddress2D, (CUtexref, const CUDA_ARRAY_DESCRIPTOR_v1 *, CUdeviceptr_v1, unsigned int pitch))
CU_API(cuTexRefSetAddress2D_v2, (CUtexref, const CUDA_ARRAY_DESCRIPTOR *, CUdeviceptr, size_t pitch))
CU_API(cuTexRefGetAddress, (CUdeviceptr_v1 *, CUtexref))
CU_API(cuGraphicsResourceGetMappedPointer, (CUdeviceptr_v1 *, unsigned int *size, CUgraphicsResource))
CU_API(cuGraphicsResourceSetMapFlags, (CUgraphicsResource, unsigned int flags))

// Streams and events
CU_API(cuStreamDestroy, (CUstream))
CU_API(cuEventDestroy, (CUevent))
CU_API_PTSZ(cuStreamBeginCapture, (CUstream))
CU_API_PTSZ(cuStreamGetCaptureInfo, (CUstream, CUstreamCaptureStatus *, cuuint64_t *id))

// Code
CU_API(cuModuleGetGlobal, (CUdeviceptr_v1 *, unsigned int *size, CUmodule, const char *name))
CU_API(cuLinkCreate, (unsigned int count, CUjit_option *, void **values, CUlinkState *))
CU_API(cuLinkAddData, (CUlinkState, CUjitInputType, void *data, size_t size, const char *name, unsigned int count,
		       CUjit_option *, void **values))
CU_API(cuLinkAddFile,
       (CUlinkState, CUjitInputType, const char *path, unsigned int count, CUjit_option *, void **values))

// Graphs
CU_API(cuGraphInstantiate, (CUgraphExec *, CUgraph, CUgraphNode *failed, char *log, size_t length))
CU_API(cuGraphInstantiate_v2, (CUgraphExec *, CUgraph, CUgraphNode *failed, char *log, size_t length))
CU_API(cuGraphExecUpdate, (CUgraphExec, CUgraph, CUgraphNode *failed, CUgraphExecUpdateResult *))
CU_API_ADD(KernelNode, const CUDA_KERNEL_NODE_PARAMS_v1 *)
CU_API(cuGraphKernelNodeGetParams, (CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1 *))
CU_API(cuGraphKernelNodeSetParams, (CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *))
CU_API(cuGraphExecKernelNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v1 *))
