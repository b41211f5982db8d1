// Converts descriptions of copies between the runtime's and the driver's. Any thread.
#pragma once

#include "runtime.h"

static inline bool rt_kind_is_valid(enum cudaMemcpyKind kind)
{
	return (unsigned)kind <= cudaMemcpyDefault;
}

// Describes a copy for the driver. cudaErrorInvalidValue: one side has both an array and a pointer, or neither.
cudaError_t rt_copy_3d(const struct cudaMemcpy3DParms *copy, CUDA_MEMCPY3D_v2 *ret_copy);
cudaError_t rt_copy_3d_peer(const struct cudaMemcpy3DPeerParms *copy, CUDA_MEMCPY3D_PEER *ret_copy);
// Converts the driver's description of a copy back, for the parameters of graph nodes.
cudaError_t rt_copy_3d_back(const CUDA_MEMCPY3D_v2 *copy, struct cudaMemcpy3DParms *ret_copy);
// Describes a copy of `size` bytes.
cudaError_t rt_copy_1d(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, CUDA_MEMCPY3D_v2 *ret_copy);

// Returns the size of an array's elements in bytes.
cudaError_t rt_array_element(CUarray array, size_t *ret_bytes);

// Finds the bytes [offset, offset + size) of a variable. cudaErrorInvalidValue: the range is not inside the variable.
cudaError_t rt_variable_range(const void *symbol, size_t offset, size_t size, void **ret_address);
