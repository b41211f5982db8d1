// Declares the parts of a space, for this directory only. The space's lock protects everything, unless said otherwise.
// A chunk is a piece of memory that the driver maps by one call. It is a page, divided into cells of one size, or a row
// of several pages, which is a single cell. A block uses one cell, or several adjacent cells. A pool has all chunks of
// one cell size. It sorts them into lists by the largest block that still fits, and a bit mask of these lists finds the
// fullest suitable chunk. Movable blocks have separate chunks, because a block that cannot move would keep a page
// forever.
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/context.h"
#include "core/error.h"
#include "core/stream.h"
#include "core/virtual_memory.h"
#include "space/space.h"

enum {
	SPACE_POOLS = 16,  // maximum number of size classes
	SPACE_PARTS = 64,  // number of parts of a page: blocks larger than the largest class use several parts
	SPACE_LEVELS = 64, // number of lists of a pool
	SPACE_RANGES = 64,
	SPACE_PROBES = 16, // number of chunks to check for room before a new one is created
	// Number of calls between two checks of fragmentation. A page must be empty for as many calls before it is
	// freed.
	SPACE_LOOK_EVERY = 1024,
	SPACE_LOOK_RETURNS = 32, // maximum number of chunks that one check frees
	SPACE_ALIGNMENT = 256,
};

struct space_cell {
	size_t asked;			// size of the block that begins in this cell; 0: none
	struct vg_movable_block *owner; // NULL: the block is not movable
};

enum space_state {
	SPACE_COMING,  // the chunk is being mapped
	SPACE_LIVE,    // the chunk is in a pool
	SPACE_LEAVING, // the chunk is being freed
};

struct space_chunk {
	struct space_range *range;
	size_t first, pages; // position and number of the pages in the range
	// The handle of the memory; 0: the handle was released, and only the mapping keeps the memory.
	CUmemGenericAllocationHandle memory;
	// The number that the space gave to the chunk's first page, and gives to no other page. The chunk's next pages
	// have the next numbers.
	uint64_t physical;
	// For each page: whether functions of the space have read or written it, and the time of the last access
	// (table.c).
	uint64_t *calls;
	// True: the program has got an address in the chunk, which must stay mapped.
	bool exposed;
	void *host; // copy of the chunk's contents while they are in the host; NULL: they are on the device
	enum space_state state;
	unsigned holds;	 // number of calls that copy to or from the chunk, which must stay mapped
	unsigned coming; // number of blocks that compaction is moving into this chunk
	bool apart;	 // compaction is emptying the chunk: it is in no list, and gets no blocks

	struct space_pool *pool;
	size_t cells, free_cells, blocks, pinned;
	uint64_t *unused; // bit mask of the free cells
	struct space_cell *cell;
	int level;			     // level of the chunk's list in the pool; -1: in no list
	struct space_chunk *next, *previous; // neighbours in that list
	struct space_chunk *idle_next, *idle_previous;
	uint64_t idle_since; // value of the space's count of calls when the chunk became empty
	uint64_t tried;	     // number of the latest compaction that considered this chunk
};

struct space_pool {
	size_t cell; // size of a cell in bytes; 0: the pool has whole pages
	bool parts;  // true: a block may use several adjacent cells
	// When a chunk becomes empty, it is freed at once only if more than `keep` bytes are free. The free bytes are
	// those of both pools with this cell size, for movable blocks and for others.
	size_t keep;
	size_t blocks, free_bytes;
	uint64_t filled; // bit mask of the levels whose lists are not empty
	struct space_chunk *level[SPACE_LEVELS];
};

struct space_range {
	struct vg_address_range *reserved;
	CUdeviceptr base;
	size_t pages, lowest_free;  // `lowest_free`: no page before this one is free
	struct space_chunk **chunk; // the chunk of each page
};

struct space_mover; // the kernels that compaction uses (mover.h)

struct vg_memory_space {
	struct core_object object;
	struct vg_context *context; // owns a reference
	struct vg_stream *stream;   // owns a reference; used for zeroing and moving
	struct core_memory_plan *plan;
	struct space_budget budget;
	size_t page_size, granularity, max_pages, usual_range; // `usual_range`: number of pages to reserve at once
	double threshold;
	bool manual;

	pthread_mutex_t lock;	// protects all members below; not held during driver calls
	pthread_cond_t changed; // signalled when `active` or `leaving` changes, and when blocks stop moving
	bool ended;
	bool is_out;	  // the memory is in the host, or is being moved
	unsigned active;  // number of calls that are in the driver
	unsigned leaving; // number of the `active` calls that free pages
	uint64_t limit, charged, allocated, padding;
	size_t blocks, movable_blocks, reserved_pages;
	uint64_t next_physical, operations, next_look;
	uint64_t defragmentations, automatic, compactions, bytes_moved;
	unsigned range_count, classes;
	struct space_range *range[SPACE_RANGES];
	// [0] for blocks that cannot move, [1] for movable ones. Each has a pool for every size class, and at the index
	// `classes` a pool of parts of pages. The pool of whole pages is `whole`.
	struct space_pool pool[2][SPACE_POOLS + 1];
	struct space_pool whole;
	struct space_chunk *idle_first, *idle_last; // list of empty chunks, sorted by how long they are empty
	bool compacting;
	struct space_mover *mover; // NULL: before the first compaction
	_Atomic uint64_t in_host;  // bytes of chunks whose contents are in the host; not protected by the lock
};

struct vg_movable_block {
	struct vg_memory_space *space; // owns a reference
	size_t size;
	struct space_chunk *chunk; // the chunk that contains the block; NULL: the space is closed
	size_t at;		   // index of the block's first cell
	unsigned pins;
	bool moving;
};

static inline CUdeviceptr space_chunk_address(const struct vg_memory_space *space, const struct space_chunk *chunk)
{
	return chunk->range->base + chunk->first * space->page_size;
}

static inline size_t space_chunk_bytes(const struct vg_memory_space *space, const struct space_chunk *chunk)
{
	return chunk->pages * space->page_size;
}

static inline size_t space_cell_bytes(const struct vg_memory_space *space, const struct space_chunk *chunk)
{
	return chunk->pool->cell ? chunk->pool->cell : space_chunk_bytes(space, chunk);
}

// ---- address.c: pages of addresses ------------------------------------------------------------------

// Finds a free row of pages at a multiple of `alignment`, and assigns the row to the chunk. Returns false if none is
// free.
bool space_assign_pages(struct vg_memory_space *space, struct space_chunk *chunk, size_t alignment);
void space_unassign_pages(struct space_chunk *chunk);
// Reserves more addresses for a chunk. Call without the lock. Fails with LIMIT, NO_MEMORY or DRIVER.
enum vg_status space_reserve(struct vg_memory_space *space, size_t pages, size_t alignment);
// Returns the range that contains an address, or NULL.
struct space_range *space_range_of(const struct vg_memory_space *space, CUdeviceptr address);
size_t space_free_ranges(const struct vg_memory_space *space);
void space_ranges_finish(struct vg_memory_space *space);

// ---- charge.c, without the lock ---------------------------------------------------------------------

// Sets INSUFFICIENT with the needed and the available amount; `whose` names the resource that ran out.
enum vg_status space_insufficient(uint64_t need, uint64_t have, const char *whose);
enum vg_status space_charge(struct vg_memory_space *space, uint64_t bytes);
void space_refund(struct vg_memory_space *space, uint64_t bytes);

// ---- chunk.c: pages of the device; without the lock -------------------------------------------------

// Charges, creates and maps the pages of a chunk, which is in no pool yet. Fails with INSUFFICIENT, LIMIT, NO_MEMORY or
// DRIVER.
enum vg_status space_chunk_create(struct vg_memory_space *space, size_t pages, size_t alignment,
				  struct space_chunk **ret_chunk);
// Creates the chunk's memory and maps it. Call with the context current. Fails with INSUFFICIENT or DRIVER.
enum vg_status space_chunk_map(struct vg_memory_space *space, struct space_chunk *chunk);
// Releases and unmaps the chunk's memory. If it fails with DRIVER, the memory is still mapped.
enum vg_status space_chunk_unmap(struct vg_memory_space *space, struct space_chunk *chunk);
// What to do with a chunk that the driver refuses to unmap: keep it in its pool, or free it while it is still mapped.
enum space_freeing { SPACE_KEEP_REFUSED, SPACE_FREE_REFUSED };
// Sums of what space_free_chunks() returned to the device.
struct space_returned {
	uint64_t bytes;
	size_t pages;
	double ms; // milliseconds for zeroing and unmapping
};
// Zeroes, unmaps, refunds and frees a list of chunks, linked by `next`. Each must be in state LEAVING, and be counted
// in `active` and `leaving`. A chunk that the driver refuses to unmap returns to its pool, or, with SPACE_FREE_REFUSED,
// is freed while still mapped. Adds the freed memory to *ret_returned, if that is not NULL. Fails with DRIVER, or with
// the error of space_fence().
enum vg_status space_free_chunks(struct vg_memory_space *space, struct space_chunk *list, enum space_freeing freeing,
				 struct space_returned *ret_returned);
// Waits for all work of the virtual GPU that was submitted so far. Call with the context current.
enum vg_status space_fence(struct vg_memory_space *space);

// ---- pool.c: cells ----------------------------------------------------------------------------------

// Adds the chunk to a pool as an empty chunk with cells of the pool's size. Returns -ENOMEM without any change.
int space_pool_adopt(struct vg_memory_space *space, struct space_pool *pool, struct space_chunk *chunk);
// Removes an empty chunk from its pool.
void space_pool_drop(struct vg_memory_space *space, struct space_chunk *chunk);
// Allocates a block's cells in existing chunks. Returns false if no chunk has room.
bool space_pool_allocate(struct vg_memory_space *space, struct space_pool *pool, size_t size, size_t alignment,
			 struct space_chunk **ret_chunk, size_t *ret_cell);
bool space_chunk_allocate(struct vg_memory_space *space, struct space_chunk *chunk, size_t size, size_t alignment,
			  size_t *ret_cell);
// Frees the cells of the block that begins at `cell`.
void space_chunk_release(struct vg_memory_space *space, struct space_chunk *chunk, size_t cell);
// Moves the chunk to the list that matches its free cells.
void space_pool_sort(struct vg_memory_space *space, struct space_chunk *chunk);
// Returns the free bytes of all chunks with the pool's cell size. There are two such pools, one for movable blocks and
// one for others, but the program sees them as one.
uint64_t space_pool_spare(const struct vg_memory_space *space, const struct space_pool *pool);
uint64_t space_largest_free(const struct vg_memory_space *space);
uint64_t space_free_bytes(const struct vg_memory_space *space);
double space_fragmentation(const struct vg_memory_space *space);

// ---- allocate.c, block.c: blocks --------------------------------------------------------------------

enum vg_status space_block_create(struct vg_memory_space *space, size_t size, size_t alignment,
				  struct vg_movable_block *owner, vg_address *ret_address);
// Frees the cells of a block. If the chunk is empty and not to be kept, puts it before *list, for
// space_free_unneeded().
void space_block_end(struct vg_memory_space *space, struct space_chunk *chunk, size_t cell, struct space_chunk **list);
// Frees a list of chunks. Those that cannot be freed stay in their pools, and the failure is logged. Keeps the last
// error. Call without the lock.
void space_free_unneeded(struct vg_memory_space *space, struct space_chunk *list);
// Returns CLOSED, or STATE while the memory is in the host or is being moved, or VG_OK.
enum vg_status space_present(const struct vg_memory_space *space);
// Fails with CLOSED if the space is closed.
enum vg_status space_usable(const struct vg_memory_space *space);
// Returns STATE in a forked child. Call without the lock, which a thread of the parent may have held during the fork.
enum vg_status space_here(void);
// Begins a public function: returns an error if the space cannot be used.
#define SPACE_USABLE(space)                           \
	do {                                          \
		CORE_USABLE(space, #space);           \
		if (__builtin_expect(core_forked, 0)) \
			return space_here();          \
	} while (0)

struct space_position {
	struct space_chunk *chunk;
	size_t cell;   // index of the block's first cell
	size_t offset; // distance of the address from the start of the block
};
// Finds the block that contains an address. Fails with BOUNDS or STALE; the error calls the address `what`.
enum vg_status space_find(const struct vg_memory_space *space, CUdeviceptr address, const char *what,
			  struct space_position *ret_place);

// ---- defragment.c: empty pages ----------------------------------------------------------------------

void space_idle_add(struct vg_memory_space *space, struct space_chunk *chunk);
void space_idle_remove(struct vg_memory_space *space, struct space_chunk *chunk);
// Removes an empty chunk from its pool and puts it before *list, to be freed. Returns false if a call still copies to
// or from it, or while the memory is in the host or is being moved.
bool space_remove_empty(struct vg_memory_space *space, struct space_chunk *chunk, struct space_chunk **list);
// Calls space_remove_empty() for all empty chunks.
void space_remove_all_empty(struct vg_memory_space *space, struct space_chunk **list);
// Counts an operation. If a check of fragmentation is due, puts the chunks to be freed before *list.
void space_check_fragmentation(struct vg_memory_space *space, struct space_chunk **list);

// ---- table.c: accesses to pages ---------------------------------------------------------------------

void space_touch(struct vg_memory_space *space, struct space_chunk *chunk, size_t offset, size_t size, bool written);
