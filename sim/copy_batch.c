// Implements batches of copies (cuMemcpyBatchAsync and similar): submits the copies one by one, in the given order.
#include "array.h"
#include "copy.h"
#include "entry.h"
#include "memory.h"
#include "stream.h"

static CUresult check_attributes(const CUmemcpyAttributes *attributes, const size_t *indices, size_t number,
				 size_t count)
{
	if (!attributes || !indices || number == 0 || number > count || indices[0] != 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < number; i++) {
		if (attributes[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
		    attributes[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
		    (i > 0 && indices[i] <= indices[i - 1]) || indices[i] >= count)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

static CUresult copy_batch(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs,
			   size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, CUstream hStream)
{
	struct sim_stream *stream;

	if (failIdx)
		*failIdx = SIZE_MAX; // the error concerns no single copy
	if (!dsts || !srcs || !sizes || count == 0)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(check_attributes(attrs, attrsIdxs, numAttrs, count));
	if ((uintptr_t)hStream <= (uintptr_t)CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE; // the legacy stream is refused
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (atomic_load(&stream->capture))
		return CUDA_ERROR_NOT_SUPPORTED;
	for (size_t i = 0; i < count; i++) {
		CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
				      .srcDevice = srcs[i],
				      .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
				      .dstDevice = dsts[i],
				      .WidthInBytes = sizes[i],
				      .Height = 1,
				      .Depth = 1};
		CUresult result = sizes[i] ? sim_copy(hStream, &copy, SIM_ASYNCHRONOUS) : CUDA_ERROR_INVALID_VALUE;
		if (result != CUDA_SUCCESS) {
			if (failIdx)
				*failIdx = i;
			return result;
		}
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
				       CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream hStream)
{
	SIM_ENTER(cuMemcpyBatchAsync_v2);
	return copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, NULL, hStream);
}

CUresult CUDAAPI cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
					    CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
					    CUstream hStream)
{
	SIM_ENTER(cuMemcpyBatchAsync_v2_ptsz);
	return copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, NULL, SIM_PTSZ(hStream));
}

CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
				    CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
				    CUstream hStream)
{
	SIM_ENTER(cuMemcpyBatchAsync);
	return copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, hStream);
}

CUresult CUDAAPI cuMemcpyBatchAsync_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
					 CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
					 CUstream hStream)
{
	SIM_ENTER(cuMemcpyBatchAsync_ptsz);
	return copy_batch(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, SIM_PTSZ(hStream));
}

// Sets the source or the destination of a copy. Lengths and offsets along a row are in elements of `element` bytes.
// `element` is 1 if neither the source nor the destination is an array.
static CUresult set_operand(const CUmemcpy3DOperand *from, size_t element, CUDA_MEMCPY3D *to, enum sim_access access)
{
	CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
	CUdeviceptr address = 0;
	CUarray array = NULL;
	size_t pitch = 0, height = 0, x = 0, y = 0, z = 0;

	if (from->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
		address = from->op.ptr.ptr;
		pitch = from->op.ptr.rowLength * element;
		height = from->op.ptr.layerHeight;
	} else if (from->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		type = CU_MEMORYTYPE_ARRAY;
		array = from->op.array.array;
		x = from->op.array.offset.x * element;
		y = from->op.array.offset.y;
		z = from->op.array.offset.z;
	} else {
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (access == SIM_WRITE) {
		to->dstMemoryType = type, to->dstDevice = address, to->dstArray = array, to->dstPitch = pitch,
		to->dstHeight = height;
		to->dstXInBytes = x, to->dstY = y, to->dstZ = z;
	} else {
		to->srcMemoryType = type, to->srcDevice = address, to->srcArray = array, to->srcPitch = pitch,
		to->srcHeight = height;
		to->srcXInBytes = x, to->srcY = y, to->srcZ = z;
	}
	return CUDA_SUCCESS;
}

static CUresult copy_one(const CUDA_MEMCPY3D_BATCH_OP *op, CUstream stream)
{
	CUDA_MEMCPY3D copy = {.Height = op->extent.height, .Depth = op->extent.depth};
	struct sim_array *array;
	size_t element = 1;

	if (op->extent.width == 0 || op->extent.height == 0 || op->extent.depth == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (op->src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		SIM_TRY(sim_array_get(op->src.op.array.array, &array));
		element = array->element;
	} else if (op->dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		SIM_TRY(sim_array_get(op->dst.op.array.array, &array));
		element = array->element;
	}
	copy.WidthInBytes = op->extent.width * element;
	SIM_TRY(set_operand(&op->src, element, &copy, SIM_READ));
	SIM_TRY(set_operand(&op->dst, element, &copy, SIM_WRITE));
	return sim_copy(stream, &copy, SIM_ASYNCHRONOUS);
}

static CUresult copy_batch_3d(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx, unsigned long long flags,
			      CUstream hStream)
{
	struct sim_stream *stream;

	if (failIdx)
		*failIdx = SIZE_MAX;
	if (!opList || numOps == 0 || flags != 0 || (uintptr_t)hStream <= (uintptr_t)CU_STREAM_LEGACY)
		return CUDA_ERROR_INVALID_VALUE;
	SIM_TRY(sim_stream_get(hStream, &stream));
	if (atomic_load(&stream->capture))
		return CUDA_ERROR_NOT_SUPPORTED;
	for (size_t i = 0; i < numOps; i++) {
		CUresult result = copy_one(&opList[i], hStream);
		if (result != CUDA_SUCCESS) {
			if (failIdx)
				*failIdx = i;
			return result;
		}
	}
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags,
					 CUstream hStream)
{
	SIM_ENTER(cuMemcpy3DBatchAsync_v2);
	return copy_batch_3d(numOps, opList, NULL, flags, hStream);
}

CUresult CUDAAPI cuMemcpy3DBatchAsync_v2_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, unsigned long long flags,
					      CUstream hStream)
{
	SIM_ENTER(cuMemcpy3DBatchAsync_v2_ptsz);
	return copy_batch_3d(numOps, opList, NULL, flags, SIM_PTSZ(hStream));
}

CUresult CUDAAPI cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
				      unsigned long long flags, CUstream hStream)
{
	SIM_ENTER(cuMemcpy3DBatchAsync);
	return copy_batch_3d(numOps, opList, failIdx, flags, hStream);
}

CUresult CUDAAPI cuMemcpy3DBatchAsync_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList, size_t *failIdx,
					   unsigned long long flags, CUstream hStream)
{
	SIM_ENTER(cuMemcpy3DBatchAsync_ptsz);
	return copy_batch_3d(numOps, opList, failIdx, flags, SIM_PTSZ(hStream));
}
