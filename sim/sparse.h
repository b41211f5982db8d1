// Declares sparse arrays, whose tiles get memory one by one (sparse.c). Any thread.
#pragma once

#include "array.h"

// Checks whether the driver can create a sparse array of this shape.
CUresult sim_sparse_check(const CUDA_ARRAY3D_DESCRIPTOR *descriptor);
// Creates the tables of tiles for the levels of an array or mipmapped array. No tile has memory.
CUresult sim_sparse_create(struct sim_array *const *levels, unsigned count);
// Destroys the tables of the levels. No operation may use them any more.
void sim_sparse_destroy(struct sim_array *const *levels, unsigned count);
void sim_sparse_properties(const struct sim_sparse *sparse, CUDA_ARRAY_SPARSE_PROPERTIES *ret_properties);
// Creates the operation for one element of the list that cuMemMapArrayAsync takes. The caller has checked its common
// fields.
CUresult sim_sparse_map_op_new(struct sim_context *context, struct sim_sparse *sparse, const CUarrayMapInfo *info,
			       struct sim_op **ret_op);
// Returns the address of a byte of a level, and how many bytes of the row follow in the same tile. 0: the tile has no
// memory.
CUdeviceptr sim_sparse_find(const struct sim_array *level, size_t x, size_t y, size_t z, size_t *ret_span);
