// Declares copies between host memory, device memory and arrays.
#pragma once
#include "memory.h"

typedef struct CUDA_MEMCPY2D_st {
	size_t srcXInBytes, srcY;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	size_t srcPitch;

	size_t dstXInBytes, dstY;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	size_t dstPitch;

	size_t WidthInBytes, Height;
} CUDA_MEMCPY2D_v2;
typedef CUDA_MEMCPY2D_v2 CUDA_MEMCPY2D;

// The height of a source or destination is that of one slice.
typedef struct CUDA_MEMCPY3D_st {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	void *reserved0;
	size_t srcPitch, srcHeight;

	size_t dstXInBytes, dstY, dstZ, dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	void *reserved1;
	size_t dstPitch, dstHeight;

	size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_v2;
typedef CUDA_MEMCPY3D_v2 CUDA_MEMCPY3D;

typedef struct CUDA_MEMCPY3D_PEER_st {
	size_t srcXInBytes, srcY, srcZ, srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	CUcontext srcContext;
	size_t srcPitch, srcHeight;

	size_t dstXInBytes, dstY, dstZ, dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	CUcontext dstContext;
	size_t dstPitch, dstHeight;

	size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D_PEER_v1;
typedef CUDA_MEMCPY3D_PEER_v1 CUDA_MEMCPY3D_PEER;

CU_API_PTDS(cuMemcpy, (CUdeviceptr, CUdeviceptr, size_t))
CU_API_PTDS(cuMemcpyPeer, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t))
CU_API_PTDS(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t))
CU_API_PTDS(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))
CU_API_PTDS(cuMemcpyDtoD_v2, (CUdeviceptr, CUdeviceptr, size_t))
CU_API_PTDS(cuMemcpyDtoA_v2, (CUarray, size_t offset, CUdeviceptr, size_t))
CU_API_PTDS(cuMemcpyAtoD_v2, (CUdeviceptr, CUarray, size_t offset, size_t))
CU_API_PTDS(cuMemcpyHtoA_v2, (CUarray, size_t offset, const void *, size_t))
CU_API_PTDS(cuMemcpyAtoH_v2, (void *, CUarray, size_t offset, size_t))
CU_API_PTDS(cuMemcpyAtoA_v2, (CUarray, size_t to, CUarray, size_t from, size_t))
CU_API_PTDS(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *))
CU_API_PTDS(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *))
CU_API_PTDS(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *))
CU_API_PTDS(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *))

CU_API_PTSZ(cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream))
CU_API_PTSZ(cuMemcpyPeerAsync, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))
CU_API_PTSZ(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))
CU_API_PTSZ(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))
CU_API_PTSZ(cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))
CU_API_PTSZ(cuMemcpyHtoAAsync_v2, (CUarray, size_t offset, const void *, size_t, CUstream))
CU_API_PTSZ(cuMemcpyAtoHAsync_v2, (void *, CUarray, size_t offset, size_t, CUstream))
CU_API_PTSZ(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *, CUstream))
CU_API_PTSZ(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *, CUstream))
CU_API_PTSZ(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *, CUstream))

// Batches of copies
typedef enum CUmemcpyFlags_enum {
	CU_MEMCPY_FLAG_DEFAULT = 0,
	CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE = 1
} CUmemcpyFlags;

typedef enum CUmemcpySrcAccessOrder_enum {
	CU_MEMCPY_SRC_ACCESS_ORDER_INVALID = 0,
	CU_MEMCPY_SRC_ACCESS_ORDER_STREAM = 1,
	CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL = 2,
	CU_MEMCPY_SRC_ACCESS_ORDER_ANY = 3,
	CU_MEMCPY_SRC_ACCESS_ORDER_MAX = 0x7fffffff
} CUmemcpySrcAccessOrder;

typedef struct CUmemcpyAttributes_st {
	CUmemcpySrcAccessOrder srcAccessOrder;
	CUmemLocation srcLocHint, dstLocHint;
	unsigned int flags;
} CUmemcpyAttributes_v1;
typedef CUmemcpyAttributes_v1 CUmemcpyAttributes;

typedef enum CUmemcpy3DOperandType_enum {
	CU_MEMCPY_OPERAND_TYPE_POINTER = 1,
	CU_MEMCPY_OPERAND_TYPE_ARRAY = 2,
	CU_MEMCPY_OPERAND_TYPE_MAX = 0x7fffffff
} CUmemcpy3DOperandType;

typedef struct CUoffset3D_st {
	size_t x, y, z;
} CUoffset3D_v1;
typedef CUoffset3D_v1 CUoffset3D;

typedef struct CUextent3D_st {
	size_t width, height, depth;
} CUextent3D_v1;
typedef CUextent3D_v1 CUextent3D;

typedef struct CUmemcpy3DOperand_st {
	CUmemcpy3DOperandType type;
	union {
		struct {
			CUdeviceptr ptr;
			size_t rowLength, layerHeight;
			CUmemLocation locHint;
		} ptr;
		struct {
			CUarray array;
			CUoffset3D offset;
		} array;
	} op;
} CUmemcpy3DOperand_v1;
typedef CUmemcpy3DOperand_v1 CUmemcpy3DOperand;

typedef struct CUDA_MEMCPY3D_BATCH_OP_st {
	CUmemcpy3DOperand src, dst;
	CUextent3D extent;
	CUmemcpySrcAccessOrder srcAccessOrder;
	unsigned int flags;
} CUDA_MEMCPY3D_BATCH_OP_v1;
typedef CUDA_MEMCPY3D_BATCH_OP_v1 CUDA_MEMCPY3D_BATCH_OP;

// The versions before 13.0 also return the index of the copy that failed.
CU_API_PTSZ(cuMemcpyBatchAsync, (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count, CUmemcpyAttributes *,
				 size_t *first, size_t attributes, size_t *failed, CUstream))
CU_API_PTSZ(cuMemcpyBatchAsync_v2, (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count,
				    CUmemcpyAttributes *, size_t *first, size_t attributes, CUstream))
CU_API_PTSZ(cuMemcpy3DBatchAsync,
	    (size_t count, CUDA_MEMCPY3D_BATCH_OP *, size_t *failed, unsigned long long flags, CUstream))
CU_API_PTSZ(cuMemcpy3DBatchAsync_v2, (size_t count, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long flags, CUstream))
