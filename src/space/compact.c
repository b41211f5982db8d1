// Compaction: movable blocks from the emptiest pages into fuller ones.
//
// A pass plans under the lock: a source stands apart from then on, so that nothing is put there, and the blocks' new
// cells are taken. Then, under no lock, everything is copied and compared. Only then the blocks' places change, or
// where something failed the new cells go, and the blocks have never moved.
#include "space/memory.h"

#include "base/clock.h"
#include "space/mover.h"

#include <stdlib.h>

static const uint64_t pass_bytes = (uint64_t)512 << 20;

struct move {
	struct vg_movable_block *block;
	struct space_chunk *to;
	size_t cell;
};

struct pass {
	struct vg_memory_space *space;
	const char *function;
	uint64_t bytes_left;	     // of the call's bound
	uint64_t bytes;		     // of this pass
	bool bounded;		     // something stayed because of a bound
	struct space_chunk *sources; // by `next`
	size_t count;
	struct move move[SPACE_MOVER_PIECES];
};

// ---- the plan: under the lock -----------------------------------------------------------------------

// While a block has two places it counts once, and the other place is padding.
static void count_once(struct vg_memory_space *space, const struct move *move)
{
	space->blocks--;
	move->to->pool->blocks--;
	space->allocated -= move->block->size;
	space->padding += move->block->size;
}

static void count_twice(struct vg_memory_space *space, const struct move *move)
{
	space->blocks++;
	move->to->pool->blocks++;
	space->allocated += move->block->size;
	space->padding -= move->block->size;
}

static CUdeviceptr place_of(const struct vg_memory_space *space, const struct space_chunk *chunk, size_t cell)
{
	return space_chunk_address(space, chunk) + cell * space_cell_bytes(space, chunk);
}

// A place in a page that is no emptier than the block's own: each move makes the fuller of two pages fuller yet, so
// that no order of moves, however it is bounded, comes back to where it began. Never an empty page.
static bool take_fuller(struct vg_memory_space *space, const struct vg_movable_block *block, struct move *move)
{
	const struct space_pool *pool = block->chunk->pool;
	const size_t least = pool->parts ? (block->size - 1) / pool->cell : 0;
	unsigned probes = SPACE_PROBES;

	for (uint64_t levels = (pool->filled & UINT64_MAX >> 1) >> least << least; levels; levels &= levels - 1) {
		move->to = pool->level[__builtin_ctzll(levels)];
		for (; move->to && probes--; move->to = move->to->next)
			if (move->to->free_cells <= block->chunk->free_cells &&
			    space_chunk_take(space, move->to, block->size, SPACE_ALIGNMENT, &move->cell))
				return true;
		if (move->to)
			return false;
	}
	return false;
}

enum planned { PLANNED, NO_PLACE, NO_MORE };

static enum planned plan_block(struct pass *pass, struct vg_movable_block *block)
{
	struct vg_memory_space *space = pass->space;
	struct move *move = &pass->move[pass->count];

	if (block->size > pass->bytes_left || pass->bytes + block->size > pass_bytes) {
		pass->bounded |= block->size > pass->bytes_left;
		return NO_MORE;
	}
	if (pass->count == SPACE_MOVER_PIECES)
		return NO_MORE;
	if (!take_fuller(space, block, move))
		return NO_PLACE;
	if (!space_mover_add(space->mover, place_of(space, move->to, move->cell),
			     place_of(space, block->chunk, block->at), block->size)) {
		space_chunk_put(space, move->to, move->cell);
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

static void undo(struct pass *pass, const struct move *move)
{
	count_twice(pass->space, move);
	move->to->coming--;
	space_chunk_put(pass->space, move->to, move->cell);
	move->block->moving = false;
	pass->bytes -= move->block->size;
	pass->bytes_left += move->block->size;
}

// All blocks of a chunk, or as many as the bounds permit, or none where they have no other place.
static enum planned plan_source(struct pass *pass, struct space_chunk *source)
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
			undo(pass, &pass->move[--pass->count]);
		space_mover_cut(pass->space->mover, listed);
	}
	if (planned != NO_MORE)
		source->tried = pass->space->compactions; // not again in this call
	if (pass->count == before) {
		source->apart = false;
		space_pool_sort(pass->space, source);
	} else {
		source->next = pass->sources;
		pass->sources = source;
	}
	return planned;
}

// The emptiest chunk of the pool that was not looked at yet and that nothing keeps from being emptied.
static struct space_chunk *next_source(const struct vg_memory_space *space, const struct space_pool *pool)
{
	for (int level = SPACE_LEVELS - 2; level >= 0; level--)
		for (struct space_chunk *chunk = pool->level[level]; chunk; chunk = chunk->next)
			if (!chunk->pinned && !chunk->holds && !chunk->coming && chunk->tried != space->compactions)
				return chunk;
	return NULL;
}

static void plan(struct pass *pass)
{
	struct vg_memory_space *space = pass->space;
	enum planned planned = PLANNED;

	for (unsigned i = 0; i <= space->classes && planned != NO_MORE; i++) {
		struct space_chunk *source;
		while (planned != NO_MORE && (source = next_source(space, &space->pool[1][i])))
			planned = plan_source(pass, source);
	}
}

// ---- the end of a pass: under the lock --------------------------------------------------------------

static void settle_move(struct pass *pass, const struct move *move)
{
	struct vg_memory_space *space = pass->space;
	struct vg_movable_block *block = move->block;

	count_twice(space, move);
	space_touch(space, block->chunk, block->at * space_cell_bytes(space, block->chunk), block->size, false);
	space_chunk_put(space, block->chunk, block->at);
	move->to->coming--;
	block->chunk = move->to;
	block->at = move->cell;
	block->moving = false;
	space_touch(space, move->to, move->cell * space_cell_bytes(space, move->to), block->size, true);
}

static void finish(struct pass *pass, bool moved, struct space_chunk **list)
{
	while (pass->count) {
		const struct move *move = &pass->move[--pass->count];
		if (moved)
			settle_move(pass, move);
		else
			undo(pass, move);
	}
	while (pass->sources) {
		struct space_chunk *source = pass->sources;
		pass->sources = source->next;
		source->next = NULL;
		source->apart = false;
		space_pool_sort(pass->space, source);
		if (!source->blocks)
			space_leave(pass->space, source, list);
	}
	pthread_cond_broadcast(&pass->space->changed);
}

// ---- the call ---------------------------------------------------------------------------------------

// What is planned is moved, or is as it was.
static enum vg_status move_all(struct pass *pass, struct vg_compact_result *result)
{
	struct vg_memory_space *space = pass->space;
	struct space_returned returned = {0};
	struct space_chunk *list = NULL;
	const uint64_t bytes = pass->bytes;
	const size_t blocks = pass->count;

	enum vg_status status = space_fence(space, pass->function);
	if (status == VG_OK)
		status = space_mover_run(space->mover, space->stream, pass->function, &result->copy_ms,
					 &result->verify_ms);
	pthread_mutex_lock(&space->lock);
	finish(pass, status == VG_OK, &list);
	if (status == VG_OK)
		space->bytes_moved += bytes;
	pthread_mutex_unlock(&space->lock);
	if (status)
		return status;
	result->bytes_moved += bytes;
	result->blocks_moved += blocks;
	status = space_give_back(space, list, false, pass->function, &returned);
	result->bytes_returned += returned.bytes;
	result->remap_ms += returned.ms;
	return status;
}

static bool stops(const struct vg_compact_options *o, const struct vg_compact_result *result, uint64_t start)
{
	struct vg_compact_progress progress = {result->bytes_moved, result->blocks_moved,
					       (double)(vg_clock_monotonic_ns() - start) * 1e-6};

	if (o->progress && o->progress(o->user, &progress))
		return true;
	return o->max_milliseconds > 0 && progress.milliseconds >= o->max_milliseconds;
}

static enum vg_status run_passes(struct pass *pass, const struct vg_compact_options *o,
				 struct vg_compact_result *result)
{
	struct vg_memory_space *space = pass->space;
	const uint64_t start = vg_clock_monotonic_ns();
	enum vg_status status = VG_OK;
	CORE_SCOPE scope = {false};

	CUresult r = core_enter(&scope, space->context->handle);
	if (r)
		return core_driver_failed(r, pass->function, "cuCtxPushCurrent", "%s", "");
	CORE_RELAXED relaxed = core_relax();
	if (!space->mover)
		status = space_mover_create(pass->function, &space->mover);
	while (status == VG_OK) {
		space_mover_cut(space->mover, 0);
		pass->bytes = 0;
		pthread_mutex_lock(&space->lock);
		plan(pass);
		pthread_mutex_unlock(&space->lock);
		if (!pass->count) {
			result->complete = !pass->bounded;
			break;
		}
		status = move_all(pass, result);
		if (status == VG_OK && stops(o, result, start))
			break;
	}
	return status;
}

static enum vg_status compact(struct vg_memory_space *space, const struct vg_compact_options *o, const char *function,
			      struct vg_compact_result *result)
{
	struct pass *pass = calloc(1, sizeof *pass);

	if (!pass)
		return vg_fail(VG_NO_MEMORY, 0, function, "no memory for a list of moves");
	pass->space = space;
	pass->function = function;
	pass->bytes_left = o->max_bytes ? o->max_bytes : UINT64_MAX;
	enum vg_status status = run_passes(pass, o, result);
	free(pass);
	return status;
}

enum vg_status vg_memory_space_compact(struct vg_memory_space *space, const struct vg_compact_options *options,
				       struct vg_compact_result *ret_result)
{
	struct vg_compact_result result = {0};
	struct vg_compact_options o;

	SPACE_USABLE(space);
	CORE_OPTIONS(o, options);
	if (!(o.max_milliseconds >= 0))
		return vg_fail(VG_INVALID, 0, __func__, "max_milliseconds is %g: 0 or more", o.max_milliseconds);
	pthread_mutex_lock(&space->lock);
	enum vg_status status = space_usable(space, __func__);
	if (status == VG_OK && space->compacting)
		status = vg_fail(VG_BUSY, 0, __func__, "the space is being compacted by another thread");
	if (status == VG_OK) {
		space->compacting = true;
		space->active++;
		space->compactions++;
		result.before = space_fragmentation(space);
	}
	pthread_mutex_unlock(&space->lock);
	if (status)
		return status;
	status = compact(space, &o, __func__, &result);
	pthread_mutex_lock(&space->lock);
	space->compacting = false;
	result.after = space_fragmentation(space);
	space->active--;
	pthread_cond_broadcast(&space->changed);
	pthread_mutex_unlock(&space->lock);
	if (ret_result)
		*ret_result = result;
	return status;
}
