// Plans and finishes a pass of a compaction.
#include "space/pass.h"

static const uint64_t pass_bytes = (uint64_t)512 << 20;

// ---- the plan: under the lock -----------------------------------------------------------------------

// A planned move has allocated cells for the block in a second chunk, which counted the block again. Removes this
// second count from `blocks` and `allocated`, and counts the second cells as padding.
static void count_once(struct vg_memory_space *space, const struct space_move *move)
{
	space->blocks--;
	move->to->pool->blocks--;
	space->allocated -= move->block->size;
	space->padding += move->block->size;
}

static void count_twice(struct vg_memory_space *space, const struct space_move *move)
{
	space->blocks++;
	move->to->pool->blocks++;
	space->allocated += move->block->size;
	space->padding -= move->block->size;
}

static CUdeviceptr get_address(const struct vg_memory_space *space, const struct space_chunk *chunk, size_t cell)
{
	return space_chunk_address(space, chunk) + cell * space_cell_bytes(space, chunk);
}

// Allocates cells in a page that is not empty and at least as full as the block's page. So each move makes the fuller
// page fuller, and no sequence of moves returns to its start.
static bool allocate_fuller(struct vg_memory_space *space, const struct vg_movable_block *block,
			    struct space_move *move)
{
	const struct space_pool *pool = block->chunk->pool;
	const size_t least = pool->parts ? (block->size - 1) / pool->cell : 0;
	unsigned probes = SPACE_PROBES;

	for (uint64_t levels = (pool->filled & UINT64_MAX >> 1) >> least << least; levels; levels &= levels - 1) {
		move->to = pool->level[__builtin_ctzll(levels)];
		for (; move->to && probes--; move->to = move->to->next)
			if (move->to->free_cells <= block->chunk->free_cells &&
			    space_chunk_allocate(space, move->to, block->size, SPACE_ALIGNMENT, &move->cell))
				return true;
		if (move->to)
			return false;
	}
	return false;
}

enum planned { PLANNED, NO_PLACE, NO_MORE };

static enum planned plan_block(struct space_pass *pass, struct vg_movable_block *block)
{
	struct vg_memory_space *space = pass->space;
	struct space_move *move = &pass->move[pass->count];

	// A block larger than a pass is moved in a pass of its own.
	if (block->size > pass->bytes_left || (pass->bytes && pass->bytes + block->size > pass_bytes)) {
		pass->bounded |= block->size > pass->bytes_left;
		return NO_MORE;
	}
	if (pass->count == SPACE_MOVER_PIECES)
		return NO_MORE;
	if (!allocate_fuller(space, block, move))
		return NO_PLACE;
	if (!space_mover_add(space->mover, get_address(space, move->to, move->cell),
			     get_address(space, block->chunk, block->at), block->size)) {
		space_chunk_release(space, move->to, move->cell);
		return NO_MORE;
	}
	move->block = block;
	move->to->cell[move->cell].owner = block;
	move->to->coming++;
	block->moving = true;
	count_once(space, move);
	pass->bytes += block->size;
	pass->bytes_left -= block->size;
	pass->count++;
	return PLANNED;
}

static void undo_move(struct space_pass *pass, const struct space_move *move)
{
	count_twice(pass->space, move);
	move->to->coming--;
	space_chunk_release(pass->space, move->to, move->cell);
	move->block->moving = false;
	pass->bytes -= move->block->size;
	pass->bytes_left += move->block->size;
}

// Plans to move all blocks of a chunk, or as many as the limits of bytes and copies permit. Plans none if the pool has
// no room.
static enum planned plan_source(struct space_pass *pass, struct space_chunk *source)
{
	const size_t before = pass->count;
	const uint32_t listed = space_mover_count(pass->space->mover);
	enum planned planned = PLANNED;

	source->apart = true;
	space_pool_sort(pass->space, source);
	for (size_t cell = 0; cell < source->cells && planned == PLANNED; cell++)
		if (source->cell[cell].owner)
			planned = plan_block(pass, source->cell[cell].owner);
	if (planned == NO_PLACE) {
		while (pass->count > before)
			undo_move(pass, &pass->move[--pass->count]);
		space_mover_cut(pass->space->mover, listed);
	}
	if (planned != NO_MORE)
		source->tried = pass->space->compactions; // do not try this chunk again in the same compaction
	if (pass->count == before) {
		source->apart = false;
		space_pool_sort(pass->space, source);
	} else {
		source->next = pass->sources;
		pass->sources = source;
	}
	return planned;
}

// Returns the emptiest chunk of the pool that can be emptied, and that this compaction has not tried yet.
static struct space_chunk *find_source(const struct vg_memory_space *space, const struct space_pool *pool)
{
	for (int level = SPACE_LEVELS - 2; level >= 0; level--)
		for (struct space_chunk *chunk = pool->level[level]; chunk; chunk = chunk->next)
			if (!chunk->pinned && !chunk->holds && !chunk->coming && chunk->tried != space->compactions)
				return chunk;
	return NULL;
}

void space_pass_plan(struct space_pass *pass)
{
	struct vg_memory_space *space = pass->space;
	enum planned planned = PLANNED;

	for (unsigned i = 0; i <= space->classes && planned != NO_MORE; i++) {
		struct space_chunk *source;
		while (planned != NO_MORE && (source = find_source(space, &space->pool[1][i])))
			planned = plan_source(pass, source);
	}
}

// ---- the end of a pass: under the lock --------------------------------------------------------------

static void complete_move(struct space_pass *pass, const struct space_move *move)
{
	struct vg_memory_space *space = pass->space;
	struct vg_movable_block *block = move->block;

	count_twice(space, move);
	space_touch(space, block->chunk, block->at * space_cell_bytes(space, block->chunk), block->size, false);
	space_chunk_release(space, block->chunk, block->at);
	move->to->coming--;
	block->chunk = move->to;
	block->at = move->cell;
	block->moving = false;
	space_touch(space, move->to, move->cell * space_cell_bytes(space, move->to), block->size, true);
}

void space_pass_finish(struct space_pass *pass, bool moved, struct space_chunk **list)
{
	while (pass->count) {
		const struct space_move *move = &pass->move[--pass->count];
		if (moved)
			complete_move(pass, move);
		else
			undo_move(pass, move);
	}
	while (pass->sources) {
		struct space_chunk *source = pass->sources;
		pass->sources = source->next;
		source->next = NULL;
		source->apart = false;
		space_pool_sort(pass->space, source);
		if (!source->blocks)
			space_remove_empty(pass->space, source, list);
	}
	pthread_cond_broadcast(&pass->space->changed);
}
