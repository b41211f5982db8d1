// Implements the functions that copy consecutive bytes. Compiled twice, for the legacy and the per-thread default
// stream.
#include "copy.h"

static cudaError_t copy_bytes(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
	if (!rt_kind_is_valid(kind))
		return cudaErrorInvalidMemcpyDirection;
	if (size == 0)
		return cudaSuccess;
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return rt_error(RT_PTDS(cuMemcpyHtoD_v2)((CUdeviceptr)to, from, size));
	case cudaMemcpyDeviceToHost:
		return rt_error(RT_PTDS(cuMemcpyDtoH_v2)(to, (CUdeviceptr)from, size));
	case cudaMemcpyDeviceToDevice:
		return rt_error(RT_PTDS(cuMemcpyDtoD_v2)((CUdeviceptr)to, (CUdeviceptr)from, size));
	default:
		return rt_error(RT_PTDS(cuMemcpy)((CUdeviceptr)to, (CUdeviceptr)from, size));
	}
}

cudaError_t CUDARTAPI cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	RT_CALL(copy_bytes(dst, src, count, kind));
}

static cudaError_t copy_bytes_async(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
				    cudaStream_t stream)
{
	if (!rt_kind_is_valid(kind))
		return cudaErrorInvalidMemcpyDirection;
	if (size == 0)
		return cudaSuccess;
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return rt_error(RT_PTSZ(cuMemcpyHtoDAsync_v2)((CUdeviceptr)to, from, size, stream));
	case cudaMemcpyDeviceToHost:
		return rt_error(RT_PTSZ(cuMemcpyDtoHAsync_v2)(to, (CUdeviceptr)from, size, stream));
	case cudaMemcpyDeviceToDevice:
		return rt_error(RT_PTSZ(cuMemcpyDtoDAsync_v2)((CUdeviceptr)to, (CUdeviceptr)from, size, stream));
	default:
		return rt_error(RT_PTSZ(cuMemcpyAsync)((CUdeviceptr)to, (CUdeviceptr)from, size, stream));
	}
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
				      cudaStream_t stream)
{
	RT_CALL(copy_bytes_async(dst, src, count, kind, stream));
}

static bool writes_symbol(enum cudaMemcpyKind kind)
{
	return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

static bool reads_symbol(enum cudaMemcpyKind kind)
{
	return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

static cudaError_t copy_to_symbol(const void *symbol, const void *from, size_t size, size_t offset,
				  enum cudaMemcpyKind kind)
{
	void *address;

	if (!writes_symbol(kind))
		return cudaErrorInvalidMemcpyDirection;
	RT_TRY(rt_variable_range(symbol, offset, size, &address));
	return copy_bytes(address, from, size, kind);
}

cudaError_t CUDARTAPI cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
					 enum cudaMemcpyKind kind)
{
	RT_CALL(copy_to_symbol(symbol, src, count, offset, kind));
}

static cudaError_t copy_from_symbol(void *to, const void *symbol, size_t size, size_t offset, enum cudaMemcpyKind kind)
{
	void *address;

	if (!reads_symbol(kind))
		return cudaErrorInvalidMemcpyDirection;
	RT_TRY(rt_variable_range(symbol, offset, size, &address));
	return copy_bytes(to, address, size, kind);
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
					   enum cudaMemcpyKind kind)
{
	RT_CALL(copy_from_symbol(dst, symbol, count, offset, kind));
}

static cudaError_t copy_to_symbol_async(const void *symbol, const void *from, size_t size, size_t offset,
					enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *address;

	if (!writes_symbol(kind))
		return cudaErrorInvalidMemcpyDirection;
	RT_TRY(rt_variable_range(symbol, offset, size, &address));
	return copy_bytes_async(address, from, size, kind, stream);
}

cudaError_t CUDARTAPI cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t offset,
					      enum cudaMemcpyKind kind, cudaStream_t stream)
{
	RT_CALL(copy_to_symbol_async(symbol, src, count, offset, kind, stream));
}

static cudaError_t copy_from_symbol_async(void *to, const void *symbol, size_t size, size_t offset,
					  enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *address;

	if (!reads_symbol(kind))
		return cudaErrorInvalidMemcpyDirection;
	RT_TRY(rt_variable_range(symbol, offset, size, &address));
	return copy_bytes_async(to, address, size, kind, stream);
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
						enum cudaMemcpyKind kind, cudaStream_t stream)
{
	RT_CALL(copy_from_symbol_async(dst, symbol, count, offset, kind, stream));
}

_Static_assert(sizeof(struct cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes), "attributes are passed unchanged");
_Static_assert(sizeof(struct cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP), "copies are passed unchanged");

cudaError_t CUDARTAPI cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes,
					   size_t count, struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs,
					   size_t numAttrs, cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuMemcpyBatchAsync_v2)((CUdeviceptr *)dsts, (CUdeviceptr *)srcs, (size_t *)sizes, count,
					       (CUmemcpyAttributes *)attrs, attrsIdxs, numAttrs, stream));
}

cudaError_t CUDARTAPI cudaMemcpy3DBatchAsync(size_t numOps, struct cudaMemcpy3DBatchOp *opList,
					     unsigned long long flags, cudaStream_t stream)
{
	RT_CALL(RT_PTSZ(cuMemcpy3DBatchAsync_v2)(numOps, (CUDA_MEMCPY3D_BATCH_OP *)opList, flags, stream));
}
