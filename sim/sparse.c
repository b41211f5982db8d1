// Implements sparse arrays. Each level has a table of tiles. Levels that are smaller than a tile share the tiles of the
// mip tail.
#include <stdlib.h>

#include "context.h"
#include "memory.h"
#include "op.h"
#include "sparse.h"
#include "texture.h"

// Memory of a tile pool that tiles of the array use. It is mapped once, at addresses of its own.
struct sparse_pool {
	struct sim_range *range; // range at `base`; if another range is there now, the context has ended
	CUdeviceptr base;
	size_t size;
	struct sim_physical *physical;
	size_t uses; // number of tiles that use the memory, also those that a queued operation will map
	struct sparse_pool *next;
};

struct sim_sparse {
	int references; // number of references, guarded by the memory lock; operations have one, too
	CUDA_ARRAY_SPARSE_PROPERTIES properties;
	size_t layers, tails, tail_tiles; // numbers of layers, of mip tails, and of tiles in each mip tail
	bool is_volume;
	struct ptx_tiles *tiles;    // tiles of each level
	uint64_t *addresses, *tail; // address of each tile; `tail` points to the elements of the mip tails
	struct sparse_pool *pools;
	unsigned count;
	struct sim_array *levels[];
};

// An operation that maps or unmaps one element of the list that cuMemMapArrayAsync takes.
struct map_op {
	struct sim_op op;
	struct sim_sparse *sparse;
	const struct ptx_tiles *tiles; // tiles of the level; NULL: the operation is on the mip tail
	size_t first[3], extent[3];    // in tiles; in the mip tail, only the first axis counts
	struct sparse_pool *pool;      // NULL: unmap
	CUdeviceptr address;	       // address of the first tile
	bool is_done;
};

CUresult sim_sparse_check(const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
	const unsigned excluded = CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |
				  CUDA_ARRAY3D_COLOR_ATTACHMENT;

	return descriptor->Height && !(descriptor->Flags & excluded) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Computes the size of a tile in texels. For each doubling of the size of a texel, one axis is halved, in turn.
static void set_tile_extent(CUDA_ARRAY_SPARSE_PROPERTIES *properties, size_t element, bool volume)
{
	unsigned extent[3] = {256, 256, 1}, axis = 1, axes = 2;

	if (volume) {
		extent[0] = 64, extent[1] = extent[2] = 32;
		axis = 0, axes = 3;
	}
	for (size_t bytes = 1; bytes < element; bytes *= 2) {
		extent[axis] /= 2;
		axis = (axis + axes - 1) % axes;
	}
	properties->tileExtent.width = extent[0];
	properties->tileExtent.height = extent[1];
	properties->tileExtent.depth = extent[2];
}

static uint32_t count_tiles(size_t extent, uint32_t tile)
{
	return (uint32_t)((extent + tile - 1) / tile);
}

// Lays out the levels of the mip tail one after the other. Each layer has a tail of its own. But if all levels are in
// the tail, the layers share one.
static void lay_out_tail(struct sim_sparse *sparse)
{
	uint64_t size = 0;

	for (unsigned i = sparse->properties.miptailFirstLevel; i < sparse->count; i++) {
		sparse->tiles[i].start = size;
		size += sim_array_block_bytes(sparse->levels[i], sparse->is_volume);
	}
	if (sparse->properties.miptailFirstLevel > 0)
		size = sim_round_up(size, PTX_TILE_BYTES);
	for (unsigned i = sparse->properties.miptailFirstLevel; i < sparse->count && !sparse->is_volume; i++)
		sparse->levels[i]->slice = size;
	if (sparse->properties.miptailFirstLevel == 0) {
		size = sim_round_up(size * sparse->layers, PTX_TILE_BYTES);
		sparse->properties.flags = CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL;
	}
	sparse->properties.miptailSize = size;
	sparse->tail_tiles = size / PTX_TILE_BYTES;
	sparse->tails = sparse->properties.flags ? 1 : sparse->layers;
}

static size_t lay_out_levels(struct sim_sparse *sparse)
{
	size_t count = 0;

	for (unsigned i = 0; i < sparse->properties.miptailFirstLevel; i++) {
		const struct sim_array *level = sparse->levels[i];
		struct ptx_tiles *tiles = &sparse->tiles[i];
		tiles->row_bytes = (uint32_t)(sparse->properties.tileExtent.width * level->element);
		tiles->height = sparse->properties.tileExtent.height;
		tiles->depth = sparse->properties.tileExtent.depth;
		tiles->across = count_tiles(level->width, sparse->properties.tileExtent.width);
		tiles->down = count_tiles(level->height, tiles->height);
		tiles->deep = count_tiles(level->depth, tiles->depth);
		count += (size_t)tiles->across * tiles->down * tiles->deep;
	}
	return count;
}

static CUresult create_tables(struct sim_sparse *sparse)
{
	size_t count = lay_out_levels(sparse), at = 0;

	sparse->addresses = calloc(count + sparse->tails * sparse->tail_tiles, sizeof *sparse->addresses);
	if (!sparse->addresses)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sparse->tail = sparse->addresses + count;
	for (unsigned i = 0; i < sparse->count; i++) {
		struct ptx_tiles *tiles = &sparse->tiles[i];
		tiles->addresses = tiles->row_bytes ? sparse->addresses + at : sparse->tail;
		at += (size_t)tiles->across * tiles->down * tiles->deep;
	}
	return CUDA_SUCCESS;
}

static void free_sparse(struct sim_sparse *sparse)
{
	free(sparse->addresses);
	free(sparse->tiles);
	free(sparse);
}

static bool is_below_tile(const struct sim_array *level, const CUDA_ARRAY_SPARSE_PROPERTIES *properties, bool volume)
{
	return level->width < properties->tileExtent.width || level->height < properties->tileExtent.height ||
	       (volume && level->depth < properties->tileExtent.depth);
}

CUresult sim_sparse_create(struct sim_array *const *levels, unsigned count)
{
	struct sim_sparse *sparse = calloc(1, sizeof *sparse + count * sizeof *sparse->levels);
	struct ptx_tiles *tiles = calloc(count, sizeof *tiles);

	if (!sparse || !tiles) {
		free(sparse);
		free(tiles);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*sparse = (struct sim_sparse){.references = 1, .count = count, .tiles = tiles};
	memcpy(sparse->levels, levels, count * sizeof *levels);
	sparse->is_volume = sim_array_is_volume(&levels[0]->descriptor);
	sparse->layers = sparse->is_volume ? 1 : levels[0]->depth;
	set_tile_extent(&sparse->properties, levels[0]->element, sparse->is_volume);
	unsigned first = 0;
	while (first < count && !is_below_tile(levels[first], &sparse->properties, sparse->is_volume))
		first++;
	sparse->properties.miptailFirstLevel = first;
	if (first < count)
		lay_out_tail(sparse);
	CUresult result = create_tables(sparse);
	if (result != CUDA_SUCCESS) {
		free_sparse(sparse);
		return result;
	}
	for (unsigned i = 0; i < count; i++) {
		levels[i]->sparse = sparse;
		levels[i]->tiles = &tiles[i];
	}
	return CUDA_SUCCESS;
}

// ---- memory: all functions with the memory lock held, except sim_* and those of the operation --------

static struct sparse_pool *find_pool(const struct sim_sparse *sparse, CUdeviceptr address)
{
	struct sparse_pool *pool = sparse->pools;

	while (pool && address - pool->base >= pool->size)
		pool = pool->next;
	return pool;
}

// Counts `uses` more tiles that use the memory of `physical`. Maps that memory when it is first used.
static CUresult use_pool(struct sim_context *context, struct sim_sparse *sparse, struct sim_physical *physical,
			 size_t uses, struct sparse_pool **ret_pool)
{
	struct sparse_pool *pool = sparse->pools;

	while (pool && pool->physical != physical)
		pool = pool->next;
	if (!pool) {
		pool = calloc(1, sizeof *pool);
		if (!pool)
			return CUDA_ERROR_OUT_OF_MEMORY;
		pool->physical = physical;
		CUresult result = sim_array_map_physical(context, physical, &pool->range);
		if (result != CUDA_SUCCESS) {
			free(pool);
			return result;
		}
		pool->base = pool->range->base;
		pool->size = pool->range->size;
		pool->next = sparse->pools;
		sparse->pools = pool;
	}
	pool->uses += uses;
	*ret_pool = pool;
	return CUDA_SUCCESS;
}

static void free_pool(struct sparse_pool *pool)
{
	if (sim_range_find(pool->base) == pool->range)
		sim_range_free(pool->range);
	free(pool);
}

static void release_pool(struct sim_sparse *sparse, struct sparse_pool *pool, size_t uses)
{
	struct sparse_pool **at = &sparse->pools;

	pool->uses -= uses;
	if (pool->uses)
		return;
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	free_pool(pool);
}

static void unref_sparse(struct sim_sparse *sparse)
{
	if (--sparse->references)
		return;
	while (sparse->pools) {
		struct sparse_pool *pool = sparse->pools;
		sparse->pools = pool->next;
		free_pool(pool);
	}
	free_sparse(sparse);
}

void sim_sparse_destroy(struct sim_array *const *levels, unsigned count)
{
	struct sim_sparse *sparse = levels[0]->sparse;

	if (!sparse)
		return;
	sim_textures_forget(sparse->tiles, count);
	for (unsigned i = 0; i < count; i++) {
		levels[i]->sparse = NULL;
		levels[i]->tiles = NULL;
	}
	sim_memory_lock();
	unref_sparse(sparse);
	sim_memory_unlock();
}

// ---- cuMemMapArrayAsync -----------------------------------------------------------------------------

static size_t count_uses(const struct map_op *op)
{
	return op->extent[0] * op->extent[1] * op->extent[2];
}

static void set_tile_address(struct sim_sparse *sparse, uint64_t *tile, CUdeviceptr address)
{
	CUdeviceptr old = *tile;

	__atomic_store_n(tile, address, __ATOMIC_RELAXED);
	if (old)
		release_pool(sparse, find_pool(sparse, old), 1);
}

static CUresult run_map(struct sim_op *op_)
{
	struct map_op *op = (struct map_op *)op_;
	const struct ptx_tiles *tiles = op->tiles;
	CUdeviceptr address = op->address;

	sim_memory_lock();
	for (size_t z = op->first[2]; z < op->first[2] + op->extent[2]; z++)
		for (size_t y = op->first[1]; y < op->first[1] + op->extent[1]; y++)
			for (size_t x = op->first[0]; x < op->first[0] + op->extent[0]; x++) {
				size_t index = tiles ? (z * tiles->down + y) * tiles->across + x : x;
				uint64_t *tile = tiles ? &tiles->addresses[index] : &op->sparse->tail[index];
				set_tile_address(op->sparse, tile, address);
				address += address ? PTX_TILE_BYTES : 0;
			}
	op->is_done = true;
	sim_memory_unlock();
	return CUDA_SUCCESS;
}

static void finish_map(struct sim_op *op_)
{
	struct map_op *op = (struct map_op *)op_;

	sim_memory_lock();
	if (op->pool && !op->is_done)
		release_pool(op->sparse, op->pool, count_uses(op));
	if (op->sparse)
		unref_sparse(op->sparse);
	sim_memory_unlock();
}

static const struct sim_op_class map_class = {
	.name = "map tiles", .size = sizeof(struct map_op), .run = run_map, .finish = finish_map};

// Converts a range along one axis to whole tiles. The range may end at the end of the level, inside the last tile.
static bool find_tiles(size_t offset, size_t extent, size_t tile, size_t size, size_t *ret_first, size_t *ret_count)
{
	size_t whole = (size + tile - 1) / tile * tile;

	if (offset % tile || extent == 0 || offset > whole || extent > whole - offset ||
	    (extent % tile && offset + extent != size))
		return false;
	*ret_first = offset / tile;
	*ret_count = (extent + tile - 1) / tile;
	return true;
}

static CUresult find_level_tiles(const struct sim_sparse *sparse, const CUarrayMapInfo *info, struct map_op *op)
{
	const CUDA_ARRAY_SPARSE_PROPERTIES *properties = &sparse->properties;
	unsigned index = info->subresource.sparseLevel.level, layer = info->subresource.sparseLevel.layer;
	size_t z = info->subresource.sparseLevel.offsetZ, deep = info->subresource.sparseLevel.extentDepth;

	if (index >= sparse->count || !sparse->tiles[index].row_bytes || layer >= sparse->layers)
		return CUDA_ERROR_INVALID_VALUE;
	const struct sim_array *level = sparse->levels[index];
	if (!find_tiles(info->subresource.sparseLevel.offsetX, info->subresource.sparseLevel.extentWidth,
			properties->tileExtent.width, level->width, &op->first[0], &op->extent[0]) ||
	    !find_tiles(info->subresource.sparseLevel.offsetY, info->subresource.sparseLevel.extentHeight,
			properties->tileExtent.height, level->height, &op->first[1], &op->extent[1]) ||
	    !find_tiles(z, deep, properties->tileExtent.depth, sparse->is_volume ? level->depth : 1, &op->first[2],
			&op->extent[2]))
		return CUDA_ERROR_INVALID_VALUE;
	op->first[2] += layer;
	op->tiles = &sparse->tiles[index];
	return CUDA_SUCCESS;
}

static CUresult find_tail_tiles(const struct sim_sparse *sparse, const CUarrayMapInfo *info, struct map_op *op)
{
	unsigned long long offset = info->subresource.miptail.offset, size = info->subresource.miptail.size;
	unsigned layer = info->subresource.miptail.layer;

	if (layer >= sparse->tails || offset % PTX_TILE_BYTES || size == 0 || size % PTX_TILE_BYTES ||
	    offset > sparse->properties.miptailSize || size > sparse->properties.miptailSize - offset)
		return CUDA_ERROR_INVALID_VALUE;
	op->first[0] = layer * sparse->tail_tiles + offset / PTX_TILE_BYTES;
	op->extent[0] = size / PTX_TILE_BYTES;
	op->extent[1] = op->extent[2] = 1;
	return CUDA_SUCCESS;
}

static CUresult find_memory(struct sim_context *context, const CUarrayMapInfo *info, struct map_op *op)
{
	size_t uses = count_uses(op), size = uses * PTX_TILE_BYTES;
	struct sim_physical *physical = sim_handle_find(info->memHandle.memHandle);

	SIM_TRY(sim_array_check_memory(context, physical, info->offset, PTX_TILE_BYTES, size));
	SIM_TRY(use_pool(context, op->sparse, physical, uses, &op->pool));
	op->address = op->pool->base + info->offset;
	return CUDA_SUCCESS;
}

CUresult sim_sparse_map_op_new(struct sim_context *context, struct sim_sparse *sparse, const CUarrayMapInfo *info,
			       struct sim_op **ret_op)
{
	struct map_op *op = (struct map_op *)sim_op_new(&map_class, context);
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL)
		result = find_level_tiles(sparse, info, op);
	else if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL)
		result = find_tail_tiles(sparse, info, op);
	if (result == CUDA_SUCCESS) {
		sim_memory_lock();
		op->sparse = sparse;
		sparse->references++;
		if (info->memOperationType == CU_MEM_OPERATION_TYPE_MAP)
			result = find_memory(context, info, op);
		sim_memory_unlock();
	}
	if (result != CUDA_SUCCESS) {
		sim_op_free(&op->op);
		return result;
	}
	*ret_op = &op->op;
	return CUDA_SUCCESS;
}

// ---- without the lock ---------------------------------------------------------------------------------

void sim_sparse_properties(const struct sim_sparse *sparse, CUDA_ARRAY_SPARSE_PROPERTIES *ret_properties)
{
	*ret_properties = sparse->properties;
}

CUdeviceptr sim_sparse_find(const struct sim_array *level, size_t x, size_t y, size_t z, size_t *ret_span)
{
	uint64_t span;
	CUdeviceptr address = ptx_tiles_find(level->tiles, level->pitch, level->slice, x, y, z, &span);

	*ret_span = span;
	return address;
}
