// Implements the functions that set memory to a byte. Compiled twice, for the legacy and the per-thread default stream.
#include "runtime.h"

cudaError_t CUDARTAPI cudaMemset(void *devPtr, int value, size_t count)
{
	RT_CALL(count ? RT_PTDS(cuMemsetD8_v2)((CUdeviceptr)devPtr, (unsigned char)value, count) : CUDA_SUCCESS);
}

cudaError_t CUDARTAPI cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
	RT_CALL(count ? RT_PTSZ(cuMemsetD8Async)((CUdeviceptr)devPtr, (unsigned char)value, count, stream)
		      : CUDA_SUCCESS);
}

static cudaError_t set_rows(void *to, size_t pitch, int value, size_t width, size_t height, bool async,
			    cudaStream_t stream)
{
	unsigned char byte = (unsigned char)value;

	if (width == 0 || height == 0)
		return cudaSuccess;
	if (pitch < width && height > 1)
		return cudaErrorInvalidValue;
	return rt_error(async ? RT_PTSZ(cuMemsetD2D8Async)((CUdeviceptr)to, pitch, byte, width, height, stream)
			      : RT_PTDS(cuMemsetD2D8_v2)((CUdeviceptr)to, pitch, byte, width, height));
}

cudaError_t CUDARTAPI cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height)
{
	RT_CALL(set_rows(devPtr, pitch, value, width, height, false, NULL));
}

cudaError_t CUDARTAPI cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width, size_t height,
					cudaStream_t stream)
{
	RT_CALL(set_rows(devPtr, pitch, value, width, height, true, stream));
}

// Sets the slices of a box. If there are no gaps between the slices, sets all of them at once.
static cudaError_t set_box(struct cudaPitchedPtr to, int value, struct cudaExtent extent, bool async,
			   cudaStream_t stream)
{
	size_t rows = extent.depth > 1 ? to.ysize : extent.height;

	if (extent.width == 0 || extent.height == 0 || extent.depth == 0)
		return cudaSuccess;
	if (rows < extent.height)
		return cudaErrorInvalidValue;
	if (rows == extent.height)
		return set_rows(to.ptr, to.pitch, value, extent.width, rows * extent.depth, async, stream);
	for (size_t z = 0; z < extent.depth; z++)
		RT_TRY(set_rows((char *)to.ptr + z * rows * to.pitch, to.pitch, value, extent.width, extent.height,
				async, stream));
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemset3D(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent)
{
	RT_CALL(set_box(pitchedDevPtr, value, extent, false, NULL));
}

cudaError_t CUDARTAPI cudaMemset3DAsync(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent,
					cudaStream_t stream)
{
	RT_CALL(set_box(pitchedDevPtr, value, extent, true, stream));
}
