// Allocates small pieces of device memory: cuts a granule of 2 MiB into units of 512 bytes. Frees the granule when its
// last allocation is freed.
#include <stdlib.h>

#include "context.h"
#include "memory.h"

enum { UNIT = 512, UNITS = SIM_GRANULE / UNIT };

struct sim_block {
	struct sim_range *range;
	struct sim_context *context;
	struct sim_block *next, *previous;
	unsigned used, lowest; // units in use; no unit below `lowest` is free
	struct {
		// Length in units of the allocation that starts at this unit; 0: no allocation starts here.
		uint32_t units;
		uint32_t asked;
		unsigned long long id;
	} at[UNITS];
};

static CUresult new_block(struct sim_context *context, struct sim_block **ret_block)
{
	struct sim_block *block = calloc(1, sizeof *block);

	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = sim_range_alloc(context, SIM_GRANULE, SIM_RANGE_BLOCK, &block->range);
	if (result != CUDA_SUCCESS) {
		free(block);
		return result;
	}
	block->range->owner = block;
	block->context = context;
	block->next = context->blocks;
	if (block->next)
		block->next->previous = block;
	context->blocks = block;
	*ret_block = block;
	return CUDA_SUCCESS;
}

// Returns the index of the first of `units` consecutive free units. Returns UNITS if the block has no room.
static unsigned find_room(const struct sim_block *block, unsigned units)
{
	unsigned start = block->lowest, i = start;

	if (UNITS - block->used < units)
		return UNITS;
	while (i < UNITS && i - start < units) {
		if (block->at[i].units) {
			i += block->at[i].units;
			start = i;
		} else {
			i++;
		}
	}
	return i - start >= units ? start : UNITS;
}

CUresult sim_block_alloc(struct sim_context *context, size_t size, CUdeviceptr *ret_address)
{
	unsigned units = (unsigned)((size + UNIT - 1) / UNIT), at = UNITS;
	struct sim_block *block;

	for (block = context->blocks; block; block = block->next)
		if ((at = find_room(block, units)) != UNITS)
			break;
	if (!block) {
		SIM_TRY(new_block(context, &block));
		at = 0;
	}
	block->at[at].units = units;
	block->at[at].asked = (uint32_t)size;
	block->at[at].id = sim_new_buffer_id();
	block->used += units;
	if (at == block->lowest)
		block->lowest = at + units;
	*ret_address = block->range->base + (CUdeviceptr)at * UNIT;
	return CUDA_SUCCESS;
}

void sim_block_finish(struct sim_range *range)
{
	struct sim_block *block = range->owner;

	if (block->previous)
		block->previous->next = block->next;
	else
		block->context->blocks = block->next;
	if (block->next)
		block->next->previous = block->previous;
	free(block);
}

bool sim_block_free(struct sim_range *range, CUdeviceptr address)
{
	struct sim_block *block = range->owner;
	unsigned at = (unsigned)((address - range->base) / UNIT);

	if (address % UNIT || !block->at[at].units)
		return false;
	block->used -= block->at[at].units;
	block->at[at].units = 0;
	if (at < block->lowest)
		block->lowest = at;
	if (block->used == 0) {
		sim_block_finish(range);
		sim_range_free(range);
	}
	return true;
}

bool sim_block_find(struct sim_range *range, CUdeviceptr address, struct sim_pointer *ret_pointer)
{
	const struct sim_block *block = range->owner;
	unsigned at = (unsigned)((address - range->base) / UNIT), start = at;

	while (start > 0 && !block->at[start].units)
		start--;
	if (!block->at[start].units || start + block->at[start].units <= at)
		return false;
	ret_pointer->base = range->base + (CUdeviceptr)start * UNIT;
	ret_pointer->size = block->at[start].asked;
	ret_pointer->buffer_id = block->at[start].id;
	return true;
}
