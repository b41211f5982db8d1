// Implements the functions that copy boxes of two and three dimensions, and arrays. Compiled twice, for the legacy and
// the per-thread default stream.
#include "copy.h"

static cudaError_t run_copy(const CUDA_MEMCPY3D_v2 *copy, bool async, cudaStream_t stream)
{
	if (copy->WidthInBytes == 0 || copy->Height == 0 || copy->Depth == 0)
		return cudaSuccess;
	return rt_error(async ? RT_PTSZ(cuMemcpy3DAsync_v2)(copy, stream) : RT_PTDS(cuMemcpy3D_v2)(copy));
}

static cudaError_t copy_box(const struct cudaMemcpy3DParms *parameters, bool async, cudaStream_t stream)
{
	CUDA_MEMCPY3D_v2 copy;

	RT_TRY(rt_copy_3d(parameters, &copy));
	return run_copy(&copy, async, stream);
}

cudaError_t CUDARTAPI cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
	RT_CALL(copy_box(p, false, NULL));
}

cudaError_t CUDARTAPI cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
	RT_CALL(copy_box(p, true, stream));
}

static cudaError_t copy_peer(const struct cudaMemcpy3DPeerParms *parameters, bool async, cudaStream_t stream)
{
	CUDA_MEMCPY3D_PEER copy;

	RT_TRY(rt_copy_3d_peer(parameters, &copy));
	return rt_error(async ? RT_PTSZ(cuMemcpy3DPeerAsync)(&copy, stream) : RT_PTDS(cuMemcpy3DPeer)(&copy));
}

cudaError_t CUDARTAPI cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
	RT_CALL(copy_peer(p, false, NULL));
}

cudaError_t CUDARTAPI cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
	RT_CALL(copy_peer(p, true, stream));
}

// One end of a copy: a position in memory, or in an array with x in bytes and y in rows.
struct end {
	void *pointer;
	size_t pitch;
	cudaArray_t array;
	size_t x, y;
};

static struct end memory_at(const void *pointer, size_t pitch)
{
	return (struct end){.pointer = (void *)pointer, .pitch = pitch};
}

static struct end array_at(cudaArray_const_t array, size_t x, size_t y)
{
	return (struct end){.array = (cudaArray_t)array, .x = x, .y = y};
}

static cudaError_t copy_rows(struct end to, struct end from, size_t width, size_t height, enum cudaMemcpyKind kind,
			     bool async, cudaStream_t stream)
{
	const struct cudaMemcpy3DParms parameters = {
		.srcArray = from.array,
		.srcPtr = {from.pointer, from.pitch, width, height},
		.dstArray = to.array,
		.dstPtr = {to.pointer, to.pitch, width, height},
		.extent = {width, height, 1},
		.kind = kind,
	};
	CUDA_MEMCPY3D_v2 copy;

	if (!rt_kind_is_valid(kind))
		return cudaErrorInvalidMemcpyDirection;
	if (width == 0 || height == 0)
		return cudaSuccess;
	if ((!to.array && to.pitch < width) || (!from.array && from.pitch < width))
		return cudaErrorInvalidPitchValue;
	RT_TRY(rt_copy_3d(&parameters, &copy));
	copy.srcXInBytes = from.x;
	copy.srcY = from.y;
	copy.dstXInBytes = to.x;
	copy.dstY = to.y;
	copy.WidthInBytes = width;
	return run_copy(&copy, async, stream);
}

cudaError_t CUDARTAPI cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
				   size_t height, enum cudaMemcpyKind kind)
{
	RT_CALL(copy_rows(memory_at(dst, dpitch), memory_at(src, spitch), width, height, kind, false, NULL));
}

cudaError_t CUDARTAPI cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
					size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	RT_CALL(copy_rows(memory_at(dst, dpitch), memory_at(src, spitch), width, height, kind, true, stream));
}

cudaError_t CUDARTAPI cudaMemcpy2DToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
					  size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	RT_CALL(copy_rows(array_at(dst, wOffset, hOffset), memory_at(src, spitch), width, height, kind, false, NULL));
}

cudaError_t CUDARTAPI cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
					       size_t spitch, size_t width, size_t height, enum cudaMemcpyKind kind,
					       cudaStream_t stream)
{
	RT_CALL(copy_rows(array_at(dst, wOffset, hOffset), memory_at(src, spitch), width, height, kind, true, stream));
}

cudaError_t CUDARTAPI cudaMemcpy2DFromArray(void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset,
					    size_t hOffset, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	RT_CALL(copy_rows(memory_at(dst, dpitch), array_at(src, wOffset, hOffset), width, height, kind, false, NULL));
}

cudaError_t CUDARTAPI cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset,
						 size_t hOffset, size_t width, size_t height, enum cudaMemcpyKind kind,
						 cudaStream_t stream)
{
	RT_CALL(copy_rows(memory_at(dst, dpitch), array_at(src, wOffset, hOffset), width, height, kind, true, stream));
}

cudaError_t CUDARTAPI cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
					       cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc,
					       size_t width, size_t height, enum cudaMemcpyKind kind)
{
	RT_CALL(copy_rows(array_at(dst, wOffsetDst, hOffsetDst), array_at(src, wOffsetSrc, hOffsetSrc), width, height,
			  kind, false, NULL));
}

static cudaError_t get_row_bytes(cudaArray_t array, size_t *ret_bytes)
{
	CUDA_ARRAY3D_DESCRIPTOR_v2 descriptor;
	size_t element;

	RT_TRY(rt_array_element((CUarray)array, &element));
	RT_TRY(rt_driver.cuArray3DGetDescriptor_v2(&descriptor, (CUarray)array));
	*ret_bytes = descriptor.Width * element;
	return cudaSuccess;
}

// Moves an end forward by a number of bytes. An array continues in its next row.
static void advance_end(struct end *end, size_t size, size_t row)
{
	if (end->array) {
		end->x += size;
		end->y += end->x / row;
		end->x %= row;
	} else {
		end->pointer = (char *)end->pointer + size;
	}
}

// Copies `size` consecutive bytes, which in an array continue in the next row. Each step copies at most one row.
static cudaError_t copy_bytes(struct end to, struct end from, size_t size, enum cudaMemcpyKind kind, bool async,
			      cudaStream_t stream)
{
	size_t to_row = SIZE_MAX, from_row = SIZE_MAX;

	if (!rt_kind_is_valid(kind))
		return cudaErrorInvalidMemcpyDirection;
	if (to.array)
		RT_TRY(get_row_bytes(to.array, &to_row));
	if (from.array)
		RT_TRY(get_row_bytes(from.array, &from_row));
	if (to.x >= to_row || from.x >= from_row)
		return cudaErrorInvalidValue;
	while (size) {
		size_t piece = size;
		if (piece > to_row - to.x)
			piece = to_row - to.x;
		if (piece > from_row - from.x)
			piece = from_row - from.x;
		to.pitch = from.pitch = piece;
		RT_TRY(copy_rows(to, from, piece, 1, kind, async, stream));
		advance_end(&to, piece, to_row);
		advance_end(&from, piece, from_row);
		size -= piece;
	}
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemcpyToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
					enum cudaMemcpyKind kind)
{
	RT_CALL(copy_bytes(array_at(dst, wOffset, hOffset), memory_at(src, 0), count, kind, false, NULL));
}

cudaError_t CUDARTAPI cudaMemcpyToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
					     size_t count, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	RT_CALL(copy_bytes(array_at(dst, wOffset, hOffset), memory_at(src, 0), count, kind, true, stream));
}

cudaError_t CUDARTAPI cudaMemcpyFromArray(void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset,
					  size_t count, enum cudaMemcpyKind kind)
{
	RT_CALL(copy_bytes(memory_at(dst, 0), array_at(src, wOffset, hOffset), count, kind, false, NULL));
}

cudaError_t CUDARTAPI cudaMemcpyFromArrayAsync(void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset,
					       size_t count, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	RT_CALL(copy_bytes(memory_at(dst, 0), array_at(src, wOffset, hOffset), count, kind, true, stream));
}

cudaError_t CUDARTAPI cudaMemcpyArrayToArray(cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst,
					     cudaArray_const_t src, size_t wOffsetSrc, size_t hOffsetSrc, size_t count,
					     enum cudaMemcpyKind kind)
{
	RT_CALL(copy_bytes(array_at(dst, wOffsetDst, hOffsetDst), array_at(src, wOffsetSrc, hOffsetSrc), count, kind,
			   false, NULL));
}
