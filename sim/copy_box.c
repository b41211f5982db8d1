// Implements the cuMemcpy* functions of two and three dimensions.
#include "copy.h"
#include "entry.h"

static CUDA_MEMCPY3D convert_2d(const CUDA_MEMCPY2D *c)
{
	return (CUDA_MEMCPY3D){.srcXInBytes = c->srcXInBytes,
			       .srcY = c->srcY,
			       .srcMemoryType = c->srcMemoryType,
			       .srcHost = c->srcHost,
			       .srcDevice = c->srcDevice,
			       .srcArray = c->srcArray,
			       .srcPitch = c->srcPitch,
			       .dstXInBytes = c->dstXInBytes,
			       .dstY = c->dstY,
			       .dstMemoryType = c->dstMemoryType,
			       .dstHost = c->dstHost,
			       .dstDevice = c->dstDevice,
			       .dstArray = c->dstArray,
			       .dstPitch = c->dstPitch,
			       .WidthInBytes = c->WidthInBytes,
			       .Height = c->Height,
			       .Depth = 1};
}

static CUDA_MEMCPY3D convert_peer(const CUDA_MEMCPY3D_PEER *c)
{
	return (CUDA_MEMCPY3D){.srcXInBytes = c->srcXInBytes,
			       .srcY = c->srcY,
			       .srcZ = c->srcZ,
			       .srcLOD = c->srcLOD,
			       .srcMemoryType = c->srcMemoryType,
			       .srcHost = c->srcHost,
			       .srcDevice = c->srcDevice,
			       .srcArray = c->srcArray,
			       .srcPitch = c->srcPitch,
			       .srcHeight = c->srcHeight,
			       .dstXInBytes = c->dstXInBytes,
			       .dstY = c->dstY,
			       .dstZ = c->dstZ,
			       .dstLOD = c->dstLOD,
			       .dstMemoryType = c->dstMemoryType,
			       .dstHost = c->dstHost,
			       .dstDevice = c->dstDevice,
			       .dstArray = c->dstArray,
			       .dstPitch = c->dstPitch,
			       .dstHeight = c->dstHeight,
			       .WidthInBytes = c->WidthInBytes,
			       .Height = c->Height,
			       .Depth = c->Depth};
}

static CUresult copy_2d(CUstream stream, const CUDA_MEMCPY2D *copy, enum sim_call call)
{
	if (!copy)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_MEMCPY3D box = convert_2d(copy);
	return sim_copy(stream, &box, call);
}

static CUresult copy_3d(CUstream stream, const CUDA_MEMCPY3D *copy, enum sim_call call)
{
	if (!copy || copy->srcLOD || copy->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_copy(stream, copy, call);
}

static CUresult copy_3d_peer(CUstream stream, const CUDA_MEMCPY3D_PEER *copy, enum sim_call call)
{
	if (!copy || copy->srcLOD || copy->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_MEMCPY3D box = convert_peer(copy);
	return sim_copy_peer(stream, &box, call);
}

#define SYNCHRONOUS(name, thread_name, type, with)                         \
	CUresult CUDAAPI name(const type *pCopy)                           \
	{                                                                  \
		SIM_ENTER(name);                                           \
		return with(NULL, pCopy, SIM_SYNCHRONOUS);                 \
	}                                                                  \
	CUresult CUDAAPI thread_name(const type *pCopy)                    \
	{                                                                  \
		SIM_ENTER(thread_name);                                    \
		return with(CU_STREAM_PER_THREAD, pCopy, SIM_SYNCHRONOUS); \
	}
#define ASYNCHRONOUS(name, type, with)                                    \
	CUresult CUDAAPI name(const type *pCopy, CUstream hStream)        \
	{                                                                 \
		SIM_ENTER(name);                                          \
		return with(hStream, pCopy, SIM_ASYNCHRONOUS);            \
	}                                                                 \
	CUresult CUDAAPI name##_ptsz(const type *pCopy, CUstream hStream) \
	{                                                                 \
		SIM_ENTER(name##_ptsz);                                   \
		return with(SIM_PTSZ(hStream), pCopy, SIM_ASYNCHRONOUS);  \
	}

SYNCHRONOUS(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, CUDA_MEMCPY2D, copy_2d)
SYNCHRONOUS(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, CUDA_MEMCPY2D, copy_2d)
SYNCHRONOUS(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, CUDA_MEMCPY3D, copy_3d)
SYNCHRONOUS(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, CUDA_MEMCPY3D_PEER, copy_3d_peer)
ASYNCHRONOUS(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, copy_2d)
ASYNCHRONOUS(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, copy_3d)
ASYNCHRONOUS(cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER, copy_3d_peer)
