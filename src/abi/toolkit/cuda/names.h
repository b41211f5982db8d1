// Maps the names that programs write to the functions that the driver exports. tests/abi/names.py writes this file from
// entries.def. cuda_abi.h does not include it.
#pragma once
#include "device.h"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define CU_NAME_PTDS(name) name##_ptds
#define CU_NAME_PTSZ(name) name##_ptsz

// The driver exports no variant of this function for the per-thread default stream, so this variant sets a flag.
static inline CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int version, cuuint64_t flags,
						CUdriverProcAddressQueryResult *status)
{
	if (!(flags & (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)))
		flags |= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	return cuGetProcAddress_v2(symbol, function, version, flags, status);
}
#else
#define CU_NAME_PTDS(name) name
#define CU_NAME_PTSZ(name) name
#endif

#define cuArray3DCreate cuArray3DCreate_v2
#define cuArray3DGetDescriptor cuArray3DGetDescriptor_v2
#define cuArrayCreate cuArrayCreate_v2
#define cuArrayGetDescriptor cuArrayGetDescriptor_v2
#define cuCtxCreate cuCtxCreate_v4
#define cuCtxDestroy cuCtxDestroy_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuDeviceGetUuid cuDeviceGetUuid_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset cuDevicePrimaryCtxReset_v2
#define cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuEventElapsedTime cuEventElapsedTime_v2
#define cuEventRecord CU_NAME_PTSZ(cuEventRecord)
#define cuEventRecordWithFlags CU_NAME_PTSZ(cuEventRecordWithFlags)
#define cuGetProcAddress CU_NAME_PTSZ(cuGetProcAddress_v2)
#define cuGraphAddDependencies cuGraphAddDependencies_v2
#define cuGraphAddKernelNode cuGraphAddKernelNode_v2
#define cuGraphAddNode cuGraphAddNode_v2
#define cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2
#define cuGraphExecUpdate cuGraphExecUpdate_v2
#define cuGraphGetEdges cuGraphGetEdges_v2
#define cuGraphInstantiate cuGraphInstantiateWithFlags
#define cuGraphInstantiateWithParams CU_NAME_PTSZ(cuGraphInstantiateWithParams)
#define cuGraphKernelNodeGetParams cuGraphKernelNodeGetParams_v2
#define cuGraphKernelNodeSetParams cuGraphKernelNodeSetParams_v2
#define cuGraphLaunch CU_NAME_PTSZ(cuGraphLaunch)
#define cuGraphNodeGetDependencies cuGraphNodeGetDependencies_v2
#define cuGraphNodeGetDependentNodes cuGraphNodeGetDependentNodes_v2
#define cuGraphRemoveDependencies cuGraphRemoveDependencies_v2
#define cuGraphUpload CU_NAME_PTSZ(cuGraphUpload)
#define cuGraphicsMapResources CU_NAME_PTSZ(cuGraphicsMapResources)
#define cuGraphicsResourceGetMappedPointer cuGraphicsResourceGetMappedPointer_v2
#define cuGraphicsResourceSetMapFlags cuGraphicsResourceSetMapFlags_v2
#define cuGraphicsUnmapResources CU_NAME_PTSZ(cuGraphicsUnmapResources)
#define cuIpcOpenMemHandle cuIpcOpenMemHandle_v2
#define cuLaunchCooperativeKernel CU_NAME_PTSZ(cuLaunchCooperativeKernel)
#define cuLaunchHostFunc CU_NAME_PTSZ(cuLaunchHostFunc)
#define cuLaunchKernel CU_NAME_PTSZ(cuLaunchKernel)
#define cuLaunchKernelEx CU_NAME_PTSZ(cuLaunchKernelEx)
#define cuLinkAddData cuLinkAddData_v2
#define cuLinkAddFile cuLinkAddFile_v2
#define cuLinkCreate cuLinkCreate_v2
#define cuMemAdvise cuMemAdvise_v2
#define cuMemAlloc cuMemAlloc_v2
#define cuMemAllocAsync CU_NAME_PTSZ(cuMemAllocAsync)
#define cuMemAllocFromPoolAsync CU_NAME_PTSZ(cuMemAllocFromPoolAsync)
#define cuMemAllocHost cuMemAllocHost_v2
#define cuMemAllocPitch cuMemAllocPitch_v2
#define cuMemBatchDecompressAsync CU_NAME_PTSZ(cuMemBatchDecompressAsync)
#define cuMemDiscardAndPrefetchBatchAsync CU_NAME_PTSZ(cuMemDiscardAndPrefetchBatchAsync)
#define cuMemDiscardBatchAsync CU_NAME_PTSZ(cuMemDiscardBatchAsync)
#define cuMemFree cuMemFree_v2
#define cuMemFreeAsync CU_NAME_PTSZ(cuMemFreeAsync)
#define cuMemGetAddressRange cuMemGetAddressRange_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemHostGetDevicePointer cuMemHostGetDevicePointer_v2
#define cuMemHostRegister cuMemHostRegister_v2
#define cuMemMapArrayAsync CU_NAME_PTSZ(cuMemMapArrayAsync)
#define cuMemPrefetchAsync CU_NAME_PTSZ(cuMemPrefetchAsync_v2)
#define cuMemPrefetchBatchAsync CU_NAME_PTSZ(cuMemPrefetchBatchAsync)
#define cuMemcpy CU_NAME_PTDS(cuMemcpy)
#define cuMemcpy2D CU_NAME_PTDS(cuMemcpy2D_v2)
#define cuMemcpy2DAsync CU_NAME_PTSZ(cuMemcpy2DAsync_v2)
#define cuMemcpy2DUnaligned CU_NAME_PTDS(cuMemcpy2DUnaligned_v2)
#define cuMemcpy3D CU_NAME_PTDS(cuMemcpy3D_v2)
#define cuMemcpy3DAsync CU_NAME_PTSZ(cuMemcpy3DAsync_v2)
#define cuMemcpy3DBatchAsync CU_NAME_PTSZ(cuMemcpy3DBatchAsync_v2)
#define cuMemcpy3DPeer CU_NAME_PTDS(cuMemcpy3DPeer)
#define cuMemcpy3DPeerAsync CU_NAME_PTSZ(cuMemcpy3DPeerAsync)
#define cuMemcpyAsync CU_NAME_PTSZ(cuMemcpyAsync)
#define cuMemcpyAtoA CU_NAME_PTDS(cuMemcpyAtoA_v2)
#define cuMemcpyAtoD CU_NAME_PTDS(cuMemcpyAtoD_v2)
#define cuMemcpyAtoH CU_NAME_PTDS(cuMemcpyAtoH_v2)
#define cuMemcpyAtoHAsync CU_NAME_PTSZ(cuMemcpyAtoHAsync_v2)
#define cuMemcpyBatchAsync CU_NAME_PTSZ(cuMemcpyBatchAsync_v2)
#define cuMemcpyDtoA CU_NAME_PTDS(cuMemcpyDtoA_v2)
#define cuMemcpyDtoD CU_NAME_PTDS(cuMemcpyDtoD_v2)
#define cuMemcpyDtoDAsync CU_NAME_PTSZ(cuMemcpyDtoDAsync_v2)
#define cuMemcpyDtoH CU_NAME_PTDS(cuMemcpyDtoH_v2)
#define cuMemcpyDtoHAsync CU_NAME_PTSZ(cuMemcpyDtoHAsync_v2)
#define cuMemcpyHtoA CU_NAME_PTDS(cuMemcpyHtoA_v2)
#define cuMemcpyHtoAAsync CU_NAME_PTSZ(cuMemcpyHtoAAsync_v2)
#define cuMemcpyHtoD CU_NAME_PTDS(cuMemcpyHtoD_v2)
#define cuMemcpyHtoDAsync CU_NAME_PTSZ(cuMemcpyHtoDAsync_v2)
#define cuMemcpyPeer CU_NAME_PTDS(cuMemcpyPeer)
#define cuMemcpyPeerAsync CU_NAME_PTSZ(cuMemcpyPeerAsync)
#define cuMemsetD16 CU_NAME_PTDS(cuMemsetD16_v2)
#define cuMemsetD16Async CU_NAME_PTSZ(cuMemsetD16Async)
#define cuMemsetD2D16 CU_NAME_PTDS(cuMemsetD2D16_v2)
#define cuMemsetD2D16Async CU_NAME_PTSZ(cuMemsetD2D16Async)
#define cuMemsetD2D32 CU_NAME_PTDS(cuMemsetD2D32_v2)
#define cuMemsetD2D32Async CU_NAME_PTSZ(cuMemsetD2D32Async)
#define cuMemsetD2D8 CU_NAME_PTDS(cuMemsetD2D8_v2)
#define cuMemsetD2D8Async CU_NAME_PTSZ(cuMemsetD2D8Async)
#define cuMemsetD32 CU_NAME_PTDS(cuMemsetD32_v2)
#define cuMemsetD32Async CU_NAME_PTSZ(cuMemsetD32Async)
#define cuMemsetD8 CU_NAME_PTDS(cuMemsetD8_v2)
#define cuMemsetD8Async CU_NAME_PTSZ(cuMemsetD8Async)
#define cuModuleGetGlobal cuModuleGetGlobal_v2
#define cuSignalExternalSemaphoresAsync CU_NAME_PTSZ(cuSignalExternalSemaphoresAsync)
#define cuStreamAddCallback CU_NAME_PTSZ(cuStreamAddCallback)
#define cuStreamAttachMemAsync CU_NAME_PTSZ(cuStreamAttachMemAsync)
#define cuStreamBatchMemOp CU_NAME_PTSZ(cuStreamBatchMemOp_v2)
#define cuStreamBeginCapture CU_NAME_PTSZ(cuStreamBeginCapture_v2)
#define cuStreamBeginCaptureToGraph CU_NAME_PTSZ(cuStreamBeginCaptureToGraph)
#define cuStreamCopyAttributes CU_NAME_PTSZ(cuStreamCopyAttributes)
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamEndCapture CU_NAME_PTSZ(cuStreamEndCapture)
#define cuStreamGetAttribute CU_NAME_PTSZ(cuStreamGetAttribute)
#define cuStreamGetCaptureInfo CU_NAME_PTSZ(cuStreamGetCaptureInfo_v3)
#define cuStreamGetCtx CU_NAME_PTSZ(cuStreamGetCtx)
#define cuStreamGetDevice CU_NAME_PTSZ(cuStreamGetDevice)
#define cuStreamGetFlags CU_NAME_PTSZ(cuStreamGetFlags)
#define cuStreamGetId CU_NAME_PTSZ(cuStreamGetId)
#define cuStreamGetPriority CU_NAME_PTSZ(cuStreamGetPriority)
#define cuStreamIsCapturing CU_NAME_PTSZ(cuStreamIsCapturing)
#define cuStreamQuery CU_NAME_PTSZ(cuStreamQuery)
#define cuStreamSetAttribute CU_NAME_PTSZ(cuStreamSetAttribute)
#define cuStreamSynchronize CU_NAME_PTSZ(cuStreamSynchronize)
#define cuStreamUpdateCaptureDependencies CU_NAME_PTSZ(cuStreamUpdateCaptureDependencies_v2)
#define cuStreamWaitEvent CU_NAME_PTSZ(cuStreamWaitEvent)
#define cuStreamWaitValue32 CU_NAME_PTSZ(cuStreamWaitValue32_v2)
#define cuStreamWaitValue64 CU_NAME_PTSZ(cuStreamWaitValue64_v2)
#define cuStreamWriteValue32 CU_NAME_PTSZ(cuStreamWriteValue32_v2)
#define cuStreamWriteValue64 CU_NAME_PTSZ(cuStreamWriteValue64_v2)
#define cuTexRefGetAddress cuTexRefGetAddress_v2
#define cuTexRefSetAddress cuTexRefSetAddress_v2
#define cuTexRefSetAddress2D cuTexRefSetAddress2D_v3
#define cuWaitExternalSemaphoresAsync CU_NAME_PTSZ(cuWaitExternalSemaphoresAsync)
