// Implements movable blocks, which may move while they are not pinned.
#include "space/memory.h"

#include "base/log.h"

#include <stdlib.h>

enum vg_status vg_movable_block_create(struct vg_memory_space *space, size_t size, struct vg_movable_block **ret_block)
{
	VG_ENTRY();
	vg_address address;

	SPACE_USABLE(space);
	CORE_NEEDED(ret_block);
	struct vg_movable_block *block = calloc(1, sizeof *block);
	if (!block)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a movable block");
	block->space = space;
	block->size = size;
	enum vg_status status = space_block_create(space, size, 0, block, &address);
	if (status) {
		free(block);
		return status;
	}
	core_object_retain(&space->object);
	*ret_block = block;
	return VG_OK;
}

// Waits until compaction is not moving the block. Call with the space's lock held.
static void wait_for_move(struct vg_movable_block *block)
{
	while (block->moving)
		pthread_cond_wait(&block->space->changed, &block->space->lock);
}

static void free_block(struct vg_movable_block *block)
{
	struct vg_memory_space *space = block->space;
	struct space_chunk *list = NULL;
	unsigned pins = 0;

	pthread_mutex_lock(&space->lock);
	wait_for_move(block);
	if (block->chunk) {
		pins = block->pins;
		block->chunk->pinned -= pins != 0;
		space->movable_blocks--;
		space_block_end(space, block->chunk, block->at, &list);
		space_check_fragmentation(space, &list);
	}
	pthread_mutex_unlock(&space->lock);
	if (pins)
		vg_log(VG_LOG_WARNING, "a movable block of %zu bytes was destroyed while it was pinned", block->size);
	space_free_unneeded(space, list);
}

void vg_movable_block_destroy(struct vg_movable_block *block)
{
	if (!block)
		return;
	if (!core_forked)
		free_block(block);
	core_object_release(&block->space->object);
	free(block);
}

static enum vg_status pin_block(struct vg_movable_block *block, vg_address *ret_address)
{
	struct vg_memory_space *space = block->space;

	wait_for_move(block);
	enum vg_status status = space_present(space);
	if (status)
		return status;
	if (block->pins == UINT32_MAX)
		return vg_fail(VG_LIMIT, 0, "the block is pinned %u times", block->pins);
	block->chunk->pinned += block->pins++ == 0;
	block->chunk->exposed = true;
	*ret_address = space_chunk_address(space, block->chunk) + block->at * space_cell_bytes(space, block->chunk);
	return VG_OK;
}

enum vg_status vg_movable_block_pin(struct vg_movable_block *block, vg_address *ret_address)
{
	VG_ENTRY();
	CORE_NEEDED(block);
	CORE_NEEDED(ret_address);
	if (core_forked)
		return space_here();
	pthread_mutex_lock(&block->space->lock);
	enum vg_status status = pin_block(block, ret_address);
	pthread_mutex_unlock(&block->space->lock);
	return status;
}

static enum vg_status unpin_block(struct vg_movable_block *block)
{
	enum vg_status status = space_usable(block->space);

	if (status)
		return status;
	if (!block->pins)
		return vg_fail(VG_STATE, 0, "the block is not pinned");
	block->chunk->pinned -= --block->pins == 0;
	return VG_OK;
}

enum vg_status vg_movable_block_unpin(struct vg_movable_block *block)
{
	VG_ENTRY();
	CORE_NEEDED(block);
	if (core_forked)
		return space_here();
	pthread_mutex_lock(&block->space->lock);
	enum vg_status status = unpin_block(block);
	pthread_mutex_unlock(&block->space->lock);
	return status;
}

size_t vg_movable_block_size(const struct vg_movable_block *block)
{
	return block ? block->size : 0;
}
