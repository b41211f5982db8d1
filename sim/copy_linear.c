// Implements the cuMemcpy* functions of one dimension, between addresses and arrays.
#include "context.h"
#include "copy.h"
#include "entry.h"

#define HOST(side, at) .side##MemoryType = CU_MEMORYTYPE_HOST, .side##Host = (at)
#define DEVICE(side, at) .side##MemoryType = CU_MEMORYTYPE_DEVICE, .side##Device = (at)
#define UNIFIED(side, at) .side##MemoryType = CU_MEMORYTYPE_UNIFIED, .side##Device = (at)
#define ARRAY(side, at, x) .side##MemoryType = CU_MEMORYTYPE_ARRAY, .side##Array = (at), .side##XInBytes = (x)
#define LINE(length, ...) (&(CUDA_MEMCPY3D){__VA_ARGS__, .WidthInBytes = (length), .Height = 1, .Depth = 1})

// Define a function, and its variant for the per-thread default stream. The last arguments are the source and the
// destination of the copy.
#define SYNCHRONOUS(name, thread_name, parameters, ...)                                               \
	CUresult CUDAAPI name parameters                                                              \
	{                                                                                             \
		SIM_ENTER(name);                                                                      \
		return sim_copy(NULL, LINE(ByteCount, __VA_ARGS__), SIM_SYNCHRONOUS);                 \
	}                                                                                             \
	CUresult CUDAAPI thread_name parameters                                                       \
	{                                                                                             \
		SIM_ENTER(thread_name);                                                               \
		return sim_copy(CU_STREAM_PER_THREAD, LINE(ByteCount, __VA_ARGS__), SIM_SYNCHRONOUS); \
	}
#define ASYNCHRONOUS(name, parameters, ...)                                                         \
	CUresult CUDAAPI name parameters                                                            \
	{                                                                                           \
		SIM_ENTER(name);                                                                    \
		return sim_copy(hStream, LINE(ByteCount, __VA_ARGS__), SIM_ASYNCHRONOUS);           \
	}                                                                                           \
	CUresult CUDAAPI name##_ptsz parameters                                                     \
	{                                                                                           \
		SIM_ENTER(name##_ptsz);                                                             \
		return sim_copy(SIM_PTSZ(hStream), LINE(ByteCount, __VA_ARGS__), SIM_ASYNCHRONOUS); \
	}

SYNCHRONOUS(cuMemcpy, cuMemcpy_ptds, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount), UNIFIED(dst, dst),
	    UNIFIED(src, src))
ASYNCHRONOUS(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream), UNIFIED(dst, dst),
	     UNIFIED(src, src))
SYNCHRONOUS(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),
	    DEVICE(dst, dstDevice), HOST(src, srcHost))
ASYNCHRONOUS(cuMemcpyHtoDAsync_v2, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),
	     DEVICE(dst, dstDevice), HOST(src, srcHost))
SYNCHRONOUS(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),
	    HOST(dst, dstHost), DEVICE(src, srcDevice))
ASYNCHRONOUS(cuMemcpyDtoHAsync_v2, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
	     HOST(dst, dstHost), DEVICE(src, srcDevice))
SYNCHRONOUS(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),
	    DEVICE(dst, dstDevice), DEVICE(src, srcDevice))
ASYNCHRONOUS(cuMemcpyDtoDAsync_v2, (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
	     DEVICE(dst, dstDevice), DEVICE(src, srcDevice))
SYNCHRONOUS(cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds,
	    (CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount),
	    ARRAY(dst, dstArray, dstOffset), DEVICE(src, srcDevice))
SYNCHRONOUS(cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds,
	    (CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount), DEVICE(dst, dstDevice),
	    ARRAY(src, srcArray, srcOffset))
SYNCHRONOUS(cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds,
	    (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount),
	    ARRAY(dst, dstArray, dstOffset), HOST(src, srcHost))
ASYNCHRONOUS(cuMemcpyHtoAAsync_v2,
	     (CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount, CUstream hStream),
	     ARRAY(dst, dstArray, dstOffset), HOST(src, srcHost))
SYNCHRONOUS(cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds,
	    (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount), HOST(dst, dstHost),
	    ARRAY(src, srcArray, srcOffset))
ASYNCHRONOUS(cuMemcpyAtoHAsync_v2,
	     (void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount, CUstream hStream),
	     HOST(dst, dstHost), ARRAY(src, srcArray, srcOffset))
SYNCHRONOUS(cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds,
	    (CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset, size_t ByteCount),
	    ARRAY(dst, dstArray, dstOffset), ARRAY(src, srcArray, srcOffset))

// Checks that both contexts are alive. The copy itself does not depend on them, because all devices share one range of
// addresses.
static CUresult check_contexts(CUcontext dst, CUcontext src)
{
	struct sim_context *context;

	SIM_TRY(sim_context_get(dst, &context));
	return sim_context_get(src, &context);
}

static CUresult copy_peer(CUstream stream, CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
			  CUcontext src_context, size_t length, enum sim_call call)
{
	SIM_TRY(check_contexts(dst_context, src_context));
	return sim_copy_peer(stream, LINE(length, DEVICE(dst, dst), DEVICE(src, src)), call);
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
			      size_t ByteCount)
{
	SIM_ENTER(cuMemcpyPeer);
	return copy_peer(NULL, dstDevice, dstContext, srcDevice, srcContext, ByteCount, SIM_SYNCHRONOUS);
}

CUresult CUDAAPI cuMemcpyPeer_ptds(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
				   CUcontext srcContext, size_t ByteCount)
{
	SIM_ENTER(cuMemcpyPeer_ptds);
	return copy_peer(CU_STREAM_PER_THREAD, dstDevice, dstContext, srcDevice, srcContext, ByteCount,
			 SIM_SYNCHRONOUS);
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
				   CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	SIM_ENTER(cuMemcpyPeerAsync);
	return copy_peer(hStream, dstDevice, dstContext, srcDevice, srcContext, ByteCount, SIM_ASYNCHRONOUS);
}

CUresult CUDAAPI cuMemcpyPeerAsync_ptsz(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
					CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
	SIM_ENTER(cuMemcpyPeerAsync_ptsz);
	return copy_peer(SIM_PTSZ(hStream), dstDevice, dstContext, srcDevice, srcContext, ByteCount, SIM_ASYNCHRONOUS);
}
