// Manages the cells of chunks, and the lists of chunks. A pool has one list for each level. The level of a chunk tells
// how large a block the chunk can still take. If a block may use several cells, the level is the length of the longest
// row of free cells, minus one. If each block uses one cell, the level grows with the number of free cells. For a chunk
// of whole pages, the level is the base-2 logarithm of the number of pages. In the other pools, an empty chunk has the
// last level, so that it is used last.
#include "space/memory.h"

#include <errno.h>
#include <stdlib.h>

// ---- bits -------------------------------------------------------------------------------------------

enum { WORD = 64 };

static size_t count_words(size_t cells)
{
	return (cells + WORD - 1) / WORD;
}

static void flip_bits(uint64_t *bits, size_t first, size_t count)
{
	while (count) {
		const size_t bit = first % WORD, here = count < WORD - bit ? count : WORD - bit;
		bits[first / WORD] ^= UINT64_MAX >> (WORD - here) << bit;
		first += here;
		count -= here;
	}
}

// Returns a mask of the bits at which `count` consecutive set bits begin.
static uint64_t find_row_starts(uint64_t bits, unsigned count)
{
	for (unsigned have = 1; have < count && bits;) {
		unsigned step = have <= count - have ? have : count - have;
		bits &= bits >> step;
		have += step;
	}
	return bits;
}

// Returns the length of the longest row of set bits. First finds the largest power of two for which a row of that
// length exists. Then adds smaller and smaller powers of two as long as such a row exists.
static unsigned find_longest_row(uint64_t bits)
{
	uint64_t rows[7] = {bits}; // masks of the bits where rows of 1, 2, 4, … set bits begin
	unsigned power = 0;

	if (bits == 0 || bits == UINT64_MAX)
		return bits ? WORD : 0;
	while ((rows[power + 1] = rows[power] & rows[power] >> (1u << power)))
		power++;
	uint64_t starts = rows[power];
	unsigned most = 1u << power;
	while (power--) {
		uint64_t longer = starts & rows[power] >> most;
		if (longer) {
			starts = longer;
			most += 1u << power;
		}
	}
	return most;
}

// ---- lists ------------------------------------------------------------------------------------------

static int compute_level(const struct vg_memory_space *space, const struct space_chunk *chunk)
{
	if (chunk->apart || !chunk->free_cells)
		return -1;
	if (!chunk->pool->cell)
		return 63 - __builtin_clzll(chunk->pages);
	if (!chunk->blocks)
		return SPACE_LEVELS - 1;
	if (chunk->pool->parts)
		return (int)find_longest_row(chunk->unused[0]) - 1;
	return (int)((chunk->free_cells - 1) * (SPACE_LEVELS - 2) / chunk->cells);
}

static void unlink_chunk(struct space_pool *pool, struct space_chunk *chunk)
{
	if (chunk->level < 0)
		return;
	if (chunk->next)
		chunk->next->previous = chunk->previous;
	if (chunk->previous)
		chunk->previous->next = chunk->next;
	else
		pool->level[chunk->level] = chunk->next;
	if (!pool->level[chunk->level])
		pool->filled &= ~(UINT64_C(1) << chunk->level);
	chunk->next = chunk->previous = NULL;
	chunk->level = -1;
}

void space_pool_sort(struct vg_memory_space *space, struct space_chunk *chunk)
{
	struct space_pool *pool = chunk->pool;
	int level = compute_level(space, chunk);

	if (level == chunk->level)
		return;
	unlink_chunk(pool, chunk);
	if (level < 0)
		return;
	chunk->level = level;
	chunk->next = pool->level[level];
	if (chunk->next)
		chunk->next->previous = chunk;
	pool->level[level] = chunk;
	pool->filled |= UINT64_C(1) << level;
}

// ---- chunks -----------------------------------------------------------------------------------------

static int cut_chunk(struct space_chunk *chunk, size_t cells)
{
	if (chunk->cells == cells)
		return 0;
	struct space_cell *cell = calloc(1, cells * sizeof *cell + count_words(cells) * sizeof *chunk->unused);
	if (!cell)
		return -ENOMEM;
	free(chunk->cell);
	chunk->cell = cell;
	chunk->unused = (uint64_t *)(cell + cells);
	chunk->cells = chunk->free_cells = cells;
	flip_bits(chunk->unused, 0, cells);
	return 0;
}

int space_pool_adopt(struct vg_memory_space *space, struct space_pool *pool, struct space_chunk *chunk)
{
	int r = cut_chunk(chunk, pool->cell ? space_chunk_bytes(space, chunk) / pool->cell : 1);

	if (r)
		return r;
	chunk->pool = pool;
	chunk->state = SPACE_LIVE;
	pool->free_bytes += space_chunk_bytes(space, chunk);
	space_idle_add(space, chunk);
	space_pool_sort(space, chunk);
	return 0;
}

void space_pool_drop(struct vg_memory_space *space, struct space_chunk *chunk)
{
	unlink_chunk(chunk->pool, chunk);
	space_idle_remove(space, chunk);
	chunk->pool->free_bytes -= space_chunk_bytes(space, chunk);
}

// ---- blocks -----------------------------------------------------------------------------------------

static bool find_cell(const struct space_chunk *chunk, size_t *ret_cell)
{
	for (size_t word = 0; word < count_words(chunk->cells); word++) {
		if (!chunk->unused[word])
			continue;
		*ret_cell = word * WORD + (size_t)__builtin_ctzll(chunk->unused[word]);
		return true;
	}
	return false;
}

static bool find_cells(const struct space_chunk *chunk, size_t cell, unsigned count, size_t alignment, size_t *ret_cell)
{
	for (uint64_t starts = find_row_starts(chunk->unused[0], count); starts; starts &= starts - 1) {
		size_t start = (size_t)__builtin_ctzll(starts);
		if (start * cell % alignment)
			continue;
		*ret_cell = start;
		return true;
	}
	return false;
}

static size_t count_cells(const struct vg_memory_space *space, const struct space_chunk *chunk, size_t size)
{
	return chunk->pool->parts ? (size - 1) / space_cell_bytes(space, chunk) + 1 : 1;
}

bool space_chunk_allocate(struct vg_memory_space *space, struct space_chunk *chunk, size_t size, size_t alignment,
			  size_t *ret_cell)
{
	const size_t bytes = space_cell_bytes(space, chunk), count = count_cells(space, chunk, size);
	size_t cell;

	if (chunk->pool->parts ? !find_cells(chunk, bytes, (unsigned)count, alignment, &cell)
			       : !find_cell(chunk, &cell))
		return false;
	if (!chunk->blocks)
		space_idle_remove(space, chunk);
	flip_bits(chunk->unused, cell, count);
	chunk->cell[cell] = (struct space_cell){size, NULL};
	chunk->free_cells -= count;
	chunk->blocks++;
	chunk->pool->blocks++;
	chunk->pool->free_bytes -= count * bytes;
	space->blocks++;
	space->allocated += size;
	space->padding += count * bytes - size;
	space_pool_sort(space, chunk);
	*ret_cell = cell;
	return true;
}

void space_chunk_release(struct vg_memory_space *space, struct space_chunk *chunk, size_t cell)
{
	const size_t size = chunk->cell[cell].asked, bytes = space_cell_bytes(space, chunk);
	const size_t count = count_cells(space, chunk, size);

	flip_bits(chunk->unused, cell, count);
	chunk->cell[cell] = (struct space_cell){0};
	chunk->free_cells += count;
	chunk->blocks--;
	chunk->pool->blocks--;
	chunk->pool->free_bytes += count * bytes;
	space->blocks--;
	space->allocated -= size;
	space->padding -= count * bytes - size;
	if (!chunk->blocks)
		space_idle_add(space, chunk);
	space_pool_sort(space, chunk);
}

// Returns whether a chunk of whole pages can take a block of this size. The block gets all pages of the chunk. Up to an
// eighth more pages than needed are accepted, so that no new pages must be created.
static bool is_suitable(const struct vg_memory_space *space, const struct space_chunk *chunk, size_t size,
			size_t alignment)
{
	const size_t pages = (size - 1) / space->page_size + 1;

	return chunk->pages >= pages && chunk->pages - pages <= pages / 8 &&
	       space_chunk_address(space, chunk) % alignment == 0;
}

bool space_pool_allocate(struct vg_memory_space *space, struct space_pool *pool, size_t size, size_t alignment,
			 struct space_chunk **ret_chunk, size_t *ret_cell)
{
	unsigned probes = SPACE_PROBES;
	size_t least = 0;

	if (pool->parts)
		least = (size - 1) / pool->cell;
	else if (!pool->cell)
		least = 63 - (size_t)__builtin_clzll((size - 1) / space->page_size + 1);
	for (uint64_t levels = pool->filled >> least << least; levels; levels &= levels - 1) {
		struct space_chunk *chunk = pool->level[__builtin_ctzll(levels)];
		for (; chunk; chunk = chunk->next) {
			if ((pool->cell || is_suitable(space, chunk, size, alignment)) &&
			    space_chunk_allocate(space, chunk, size, alignment, ret_cell)) {
				*ret_chunk = chunk;
				return true;
			}
			if (--probes == 0)
				return false;
		}
	}
	return false;
}

// ---- free memory ------------------------------------------------------------------------------------

uint64_t space_pool_spare(const struct vg_memory_space *space, const struct space_pool *pool)
{
	if (pool == &space->whole)
		return pool->free_bytes;
	const struct space_pool *first = pool < space->pool[1] ? space->pool[0] : space->pool[1];
	return space->pool[0][pool - first].free_bytes + space->pool[1][pool - first].free_bytes;
}

static uint64_t get_largest(const struct space_pool *pool)
{
	if (!pool->cell || !pool->filled)
		return 0;
	return pool->parts ? (64 - (uint64_t)__builtin_clzll(pool->filled)) * pool->cell : pool->cell;
}

uint64_t space_largest_free(const struct vg_memory_space *space)
{
	uint64_t most = 0;

	for (unsigned movable = 0; movable < 2; movable++)
		for (unsigned i = 0; i <= space->classes; i++) {
			uint64_t here = get_largest(&space->pool[movable][i]);
			most = here > most ? here : most;
		}
	for (const struct space_chunk *chunk = space->idle_first; chunk; chunk = chunk->idle_next)
		if (space_chunk_bytes(space, chunk) > most)
			most = space_chunk_bytes(space, chunk);
	return most;
}

uint64_t space_free_bytes(const struct vg_memory_space *space)
{
	uint64_t sum = space->whole.free_bytes;

	for (unsigned movable = 0; movable < 2; movable++)
		for (unsigned i = 0; i <= space->classes; i++)
			sum += space->pool[movable][i].free_bytes;
	return sum;
}

double space_fragmentation(const struct vg_memory_space *space)
{
	const uint64_t unused = space_free_bytes(space);

	return unused ? 1 - (double)space_largest_free(space) / (double)unused : 0;
}
