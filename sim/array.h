// Declares CUDA arrays and mipmapped arrays (array.c, array_map.c). Any thread.
#pragma once

#include "sim.h"

struct ptx_tiles;

enum { SIM_ARRAY_MAGIC = 0x41525932, SIM_LEVEL_ALIGNMENT = 512 /* alignment of a mipmap level */ };

struct sim_array {
	uint32_t magic;
	struct sim_context *context;
	CUDA_ARRAY3D_DESCRIPTOR descriptor;
	CUdeviceptr base; // 0: the array has deferred mapping, or is sparse
	// in bytes: one element, the distance of two rows, the distance of two slices, the whole array
	size_t element, pitch, slice, size;
	size_t width, height, depth; // extents of the array in elements, rows and slices; each is at least 1
	struct sim_mipmap *mipmap;   // the mipmapped array, if this array is a level of one; or NULL
	// The memory that cuMemMapArrayAsync mapped to this array, or to the mipmapped array whose first level this is.
	// NULL: none.
	struct sim_range *mapping;
	struct sim_sparse *sparse;     // the tiles, shared by all levels of a mipmapped array; NULL: not sparse
	const struct ptx_tiles *tiles; // tiles of this level
	struct sim_array *next_free;
};

CUresult sim_array_get(CUarray handle, struct sim_array **ret_array);
void sim_array_unmap(struct sim_array *const *levels, unsigned count);
CUresult sim_mipmap_levels(CUmipmappedArray handle, unsigned *ret_count, struct sim_array *const **ret_levels);
bool sim_array_is_volume(const CUDA_ARRAY3D_DESCRIPTOR *descriptor);
// Returns how many bytes a GPU needs for a level, or for one layer of it. A GPU stores texels in blocks, so the size is
// rounded up to whole blocks.
uint64_t sim_array_block_bytes(const struct sim_array *array, bool is_volume);

// Checks that `physical` belongs to a tile pool of the context's device, and has `size` bytes from the offset on.
// `physical` is NULL if the program passed an invalid handle. Call it with the memory lock held.
CUresult sim_array_check_memory(const struct sim_context *context, const struct sim_physical *physical,
				unsigned long long offset, size_t alignment, size_t size);
// Maps all of `physical` at new addresses, which are freed with the context. Call it with the memory lock held.
CUresult sim_array_map_physical(struct sim_context *context, struct sim_physical *physical,
				struct sim_range **ret_range);
