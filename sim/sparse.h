// Sparse arrays: memory for their tiles, one by one. Any thread.
#pragma once

#include "sim.h"

// Whether the driver makes a sparse array of this shape.
CUresult sim_sparse_check(const CUDA_ARRAY3D_DESCRIPTOR *descriptor);
// Gives the levels of an array or mipmapped array their tables of tiles, none of which has memory.
CUresult sim_sparse_create(struct sim_array *const *levels, unsigned count);
// The levels must not be in use any more.
void sim_sparse_destroy(struct sim_array *const *levels, unsigned count);
void sim_sparse_properties(const struct sim_sparse *sparse, CUDA_ARRAY_SPARSE_PROPERTIES *ret_properties);
// Checks one entry of cuMemMapArrayAsync and prepares it for the stream. The entry's own fields are checked already.
CUresult sim_sparse_map_op_new(struct sim_context *context, struct sim_sparse *sparse, const CUarrayMapInfo *info,
			       struct sim_op **ret_op);
// The address of a byte of a level, 0 if its tile has no memory, and how many bytes of the row follow it in its tile.
CUdeviceptr sim_sparse_find(const struct sim_array *level, size_t x, size_t y, size_t z, size_t *ret_span);

// array.c. The bytes of a level, or of one of its layers, in the blocks of texels that a GPU keeps them in. What a GPU's
// driver says of sizes follows from it.
uint64_t sim_array_block_bytes(const struct sim_array *array, bool is_volume);
bool sim_array_is_volume(const CUDA_ARRAY3D_DESCRIPTOR *descriptor);

// array_map.c, with the memory lock. Whether `physical` (NULL: no handle) is of a tile pool of the context's device and
// has so many bytes at the offset.
CUresult sim_array_check_memory(const struct sim_context *context, const struct sim_physical *physical,
				unsigned long long offset, size_t alignment, size_t size);
// Maps all of it at addresses of its own, which go with the context.
CUresult sim_array_map_physical(struct sim_context *context, struct sim_physical *physical,
				struct sim_range **ret_range);
