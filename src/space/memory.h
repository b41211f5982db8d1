// The parts of a space, for this room only. All of it is under the space's lock, unless said otherwise. A chunk is what
// the driver maps at once: a page with cells of one size, or a row of pages that is one cell. A block uses one cell or
// several adjacent ones. A pool has the chunks of one cell size, in lists by the largest block that still fits. A bit
// mask of the lists finds the fullest suitable chunk. Movable blocks have their own chunks: a block that cannot move
// would keep a page forever.
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
	SPACE_PARTS = 64,  // parts of a page, for blocks between the largest class and a page
	SPACE_LEVELS = 64, // number of lists of a pool
	SPACE_RANGES = 64,
	SPACE_PROBES = 16, // number of chunks to check before a new one is created
	// calls between two checks of fragmentation; minimum for which a page is empty before it is freed
	SPACE_LOOK_EVERY = 1024,
	SPACE_LOOK_RETURNS = 32, // maximum number of chunks that one check frees
	SPACE_ALIGNMENT = 256,
};

struct space_cell {
	size_t asked;			// size of the block that begins here; 0: none
	struct vg_movable_block *owner; // NULL: a plain block
};

enum space_state {
	SPACE_COMING,  // being mapped
	SPACE_LIVE,    // in a pool
	SPACE_LEAVING, // being freed
};

struct space_chunk {
	struct space_range *range;
	size_t first, pages;		     // pages in the range
	CUmemGenericAllocationHandle memory; // 0: released, only the mapping keeps the memory
	uint64_t physical;		     // number of its first physical page
	uint64_t *calls;		     // by page: accesses by calls of the space (table.c)
	bool exposed;			     // the program got an address in it since it was mapped
	void *host;			     // its contents while they are in the host; NULL: on the device
	enum space_state state;
	unsigned holds;	 // number of calls that copy to or from it: it must stay mapped
	unsigned coming; // number of blocks that compaction moves here
	bool apart;	 // source of a compaction: in no list, and gets no blocks

	struct space_pool *pool;
	size_t cells, free_cells, blocks, pinned;
	uint64_t *unused; // bits of free cells
	struct space_cell *cell;
	int level;			     // its list in the pool; -1: none
	struct space_chunk *next, *previous; // in that list
	struct space_chunk *idle_next, *idle_previous;
	uint64_t idle_since; // the space's count of calls at that time
	uint64_t tried;	     // number of the latest compaction that considered it
};

struct space_pool {
	size_t cell; // bytes of a cell; 0: whole pages
	bool parts;  // blocks may use several cells
	size_t keep; // free bytes to keep, for plain and movable blocks together
	size_t blocks, free_bytes;
	uint64_t filled; // bits of levels whose lists are not empty
	struct space_chunk *level[SPACE_LEVELS];
};

struct space_range {
	struct vg_address_range *reserved;
	CUdeviceptr base;
	size_t pages, lowest_free;  // no earlier page is free
	struct space_chunk **chunk; // by page
};

struct space_mover; // the kernels of compaction (mover.h)

struct vg_memory_space {
	struct core_object object;
	struct vg_context *context; // a reference
	struct vg_stream *stream;   // a reference; for zeroing and moving
	struct core_memory_plan *plan;
	struct space_budget budget;
	size_t page_size, granularity, max_pages, usual_range; // usual_range: pages reserved at once
	double threshold;
	bool manual;

	pthread_mutex_t lock;	// protects all below; not held during driver calls
	pthread_cond_t changed; // signals `active`, `leaving`, and blocks that stop moving
	bool ended;
	bool is_out;	  // memory is in the host, or is being moved
	unsigned active;  // number of calls at the driver
	unsigned leaving; // of these, calls that free pages
	uint64_t limit, charged, allocated, padding;
	size_t blocks, movable_blocks, reserved_pages;
	uint64_t next_physical, operations, next_look;
	uint64_t defragmentations, automatic, compactions, bytes_moved;
	unsigned range_count, classes;
	struct space_range *range[SPACE_RANGES];
	struct space_pool pool[2][SPACE_POOLS + 1]; // not movable, movable; the last pool has parts of pages
	struct space_pool whole;
	struct space_chunk *idle_first, *idle_last; // empty chunks, longest empty first
	bool compacting;
	struct space_mover *mover; // NULL: before the first compaction
	_Atomic uint64_t in_host;  // bytes of chunks in the host; not under the lock
};

struct vg_movable_block {
	struct vg_memory_space *space; // a reference
	size_t size;
	struct space_chunk *chunk; // NULL: the space is closed
	size_t at;		   // index of the first cell
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

// Finds a free row of pages at a multiple of `alignment` and assigns it to the chunk. Returns false if no row is free.
bool space_assign_pages(struct vg_memory_space *space, struct space_chunk *chunk, size_t alignment);
void space_unassign_pages(struct space_chunk *chunk);
// Reserves more addresses for a chunk. Call without the lock. LIMIT, NO_MEMORY, DRIVER.
enum vg_status space_reserve(struct vg_memory_space *space, size_t pages, size_t alignment);
// Returns the range that contains an address, or NULL.
struct space_range *space_range_of(const struct vg_memory_space *space, CUdeviceptr address);
size_t space_free_ranges(const struct vg_memory_space *space);
void space_ranges_finish(struct vg_memory_space *space);

// ---- charge.c, without the lock ---------------------------------------------------------------------

// Sets INSUFFICIENT with both amounts; `whose` names the resource that ran out.
enum vg_status space_insufficient(uint64_t need, uint64_t have, const char *whose);
enum vg_status space_charge(struct vg_memory_space *space, uint64_t bytes);
void space_refund(struct vg_memory_space *space, uint64_t bytes);

// ---- chunk.c: pages of the device; without the lock -------------------------------------------------

// Charges and maps pages; the chunk is in no pool yet. INSUFFICIENT, LIMIT, NO_MEMORY, DRIVER.
enum vg_status space_chunk_create(struct vg_memory_space *space, size_t pages, size_t alignment,
				  struct space_chunk **ret_chunk);
// Creates the chunk's memory and maps it. In the context. INSUFFICIENT, DRIVER.
enum vg_status space_chunk_map(struct vg_memory_space *space, struct space_chunk *chunk);
// Releases and unmaps it. DRIVER: it is still mapped.
enum vg_status space_chunk_unmap(struct vg_memory_space *space, struct space_chunk *chunk);
// Zeroes, unmaps, refunds and frees a list of chunks by `next`, in state LEAVING and counted by space_remove_empty().
// Chunks that the driver refuses return to their pools, or, with SPACE_FREE_REFUSED, are freed without it. Adds to
// *ret_returned, if not NULL. DRIVER, or the fence's error.
enum space_freeing { SPACE_KEEP_REFUSED, SPACE_FREE_REFUSED };
struct space_returned {
	uint64_t bytes;
	size_t pages;
	double ms; // for zeroing and unmapping
};
enum vg_status space_free_chunks(struct vg_memory_space *space, struct space_chunk *list, enum space_freeing freeing,
				 struct space_returned *ret_returned);
// Waits for the virtual GPU's work that was dispatched so far. Call in the context.
enum vg_status space_fence(struct vg_memory_space *space);

// ---- pool.c: cells ----------------------------------------------------------------------------------

// Adds the chunk to a pool as an empty chunk, with cells of its size. Returns -ENOMEM without any change.
int space_pool_adopt(struct vg_memory_space *space, struct space_pool *pool, struct space_chunk *chunk);
// Removes an empty chunk from its pool.
void space_pool_drop(struct vg_memory_space *space, struct space_chunk *chunk);
// Allocates a block's cells in existing chunks. Returns false if none has room.
bool space_pool_allocate(struct vg_memory_space *space, struct space_pool *pool, size_t size, size_t alignment,
			 struct space_chunk **ret_chunk, size_t *ret_cell);
bool space_chunk_allocate(struct vg_memory_space *space, struct space_chunk *chunk, size_t size, size_t alignment,
			  size_t *ret_cell);
// Frees the cells of the block that begins at `cell`.
void space_chunk_release(struct vg_memory_space *space, struct space_chunk *chunk, size_t cell);
// Moves the chunk to the list of its current level.
void space_pool_sort(struct vg_memory_space *space, struct space_chunk *chunk);
// Returns the free bytes of a pool as programs see it: for plain and movable blocks.
uint64_t space_pool_spare(const struct vg_memory_space *space, const struct space_pool *pool);
uint64_t space_largest_free(const struct vg_memory_space *space);
uint64_t space_free_bytes(const struct vg_memory_space *space);
double space_fragmentation(const struct vg_memory_space *space);

// ---- allocate.c, block.c: blocks --------------------------------------------------------------------

enum vg_status space_block_create(struct vg_memory_space *space, size_t size, size_t alignment,
				  struct vg_movable_block *owner, vg_address *ret_address);
// Frees the cells. Puts a chunk that is not to be kept before *list, for space_free_unneeded().
void space_block_end(struct vg_memory_space *space, struct space_chunk *chunk, size_t cell, struct space_chunk **list);
// Frees chunks. On failure they remain, and the failure is logged. Keeps the last error. Call without the lock.
void space_free_unneeded(struct vg_memory_space *space, struct space_chunk *list);
// Returns CLOSED, STATE if the space is out, or VG_OK.
enum vg_status space_present(const struct vg_memory_space *space);
// Fails with CLOSED if the space is closed.
enum vg_status space_usable(const struct vg_memory_space *space);
// Fails with STATE in a forked child. Call without the lock, which a thread of the parent may have held at the fork.
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
	size_t cell;   // first cell of the block
	size_t offset; // of the address within the block
};
// Finds the block that contains an address. BOUNDS, STALE; `what` is the address's name.
enum vg_status space_find(const struct vg_memory_space *space, CUdeviceptr address, const char *what,
			  struct space_position *ret_place);

// ---- defragment.c: empty pages ----------------------------------------------------------------------

void space_idle_add(struct vg_memory_space *space, struct space_chunk *chunk);
void space_idle_remove(struct vg_memory_space *space, struct space_chunk *chunk);
// Removes an empty chunk from its pool and puts it before *list, to be freed. Returns false if a call still copies
// there, or if the space is out.
bool space_remove_empty(struct vg_memory_space *space, struct space_chunk *chunk, struct space_chunk **list);
// Does that for all empty chunks.
void space_remove_all_empty(struct vg_memory_space *space, struct space_chunk **list);
// Counts an operation. If a check is due, puts empty chunks before *list.
void space_check_fragmentation(struct vg_memory_space *space, struct space_chunk **list);

// ---- table.c: accesses to pages ---------------------------------------------------------------------

void space_touch(struct vg_memory_space *space, struct space_chunk *chunk, size_t offset, size_t size, bool written);
