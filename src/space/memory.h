// What a space is made of, for this room. Everything here is under the space's lock but where it says otherwise.
//
// A chunk is what the driver maps at once: one page that is cut into cells of one size, or a row of pages that is one
// cell. A block takes neighbouring cells. A pool has the chunks of one cell size, in lists by the largest block that
// still fits, so that the fullest one that does is found by a bit. Movable blocks have chunks of their own: a block
// that can never move would hold a page for ever.
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
	SPACE_POOLS = 16,  // size classes at most
	SPACE_PARTS = 64,  // of a page, for blocks between the largest class and a page
	SPACE_LEVELS = 64, // lists of a pool
	SPACE_RANGES = 64,
	SPACE_PROBES = 16,	 // chunks that are looked at before a new one is made
	SPACE_LOOK_EVERY = 1024, // calls between two looks at fragmentation, and how long a page has to be empty
	SPACE_LOOK_RETURNS = 32, // chunks that one look gives back
	SPACE_ALIGNMENT = 256,
};

struct space_cell {
	size_t asked;			// by the block that begins here; 0: none does
	struct vg_movable_block *owner; // NULL: a plain block
};

enum space_state {
	SPACE_COMING,  // being mapped
	SPACE_LIVE,    // in its pool
	SPACE_LEAVING, // being given back
};

struct space_chunk {
	struct space_range *range;
	size_t first, pages;		     // of the range
	CUmemGenericAllocationHandle memory; // 0: given back, only the mapping keeps it
	uint64_t physical;		     // number of its first physical page
	uint64_t *calls;		     // by page: what our own calls did there (table.c)
	bool told;			     // a program had an address in it since it was mapped
	void *host;			     // its contents, while it is not on the device; NULL: it is
	enum space_state state;
	unsigned holds;	 // calls that copy from or to it: it is not to be unmapped
	unsigned coming; // blocks that are being moved here
	bool apart;	 // being emptied: in no list, and nothing goes there

	struct space_pool *pool;
	size_t cells, free_cells, blocks, pinned;
	uint64_t *unused; // bit a cell
	struct space_cell *cell;
	int level;			     // the list of the pool that it is in; -1: none
	struct space_chunk *next, *previous; // there
	struct space_chunk *idle_next, *idle_previous;
	uint64_t idle_since; // calls that the space had seen
	uint64_t tried;	     // the compaction that looked at it last
};

struct space_pool {
	size_t cell; // bytes; 0: whole pages
	bool parts;  // blocks may take several cells
	size_t keep; // free bytes that stay, of the plain and the movable one together
	size_t blocks, free_bytes;
	uint64_t filled; // bit a level: its list is not empty
	struct space_chunk *level[SPACE_LEVELS];
};

struct space_range {
	struct vg_address_range *reserved;
	CUdeviceptr base;
	size_t pages, lowest_free;  // no page before it is free
	struct space_chunk **chunk; // by page
};

struct space_mover; // compaction's kernels (mover.h)

struct vg_memory_space {
	struct core_object object;
	struct vg_context *context; // held
	struct vg_stream *stream;   // held: scrubbing and moving
	struct core_memory_plan *plan;
	struct space_budget budget;
	size_t page_size, granularity, max_pages, usual_range; // the last: pages reserved at once
	double threshold;
	bool manual;

	pthread_mutex_t lock;	// of all below; held over no driver call
	pthread_cond_t changed; // `active`, `leaving`, blocks that stop moving
	bool ended;
	bool is_out;	  // memory is in the host, or on its way there or back
	unsigned active;  // calls that are at the driver
	unsigned leaving; // of them, those that give pages back
	uint64_t limit, held, allocated, padding;
	size_t blocks, movable_blocks, reserved_pages;
	uint64_t next_physical, operations, next_look;
	uint64_t defragmentations, automatic, compactions, bytes_moved;
	unsigned range_count, classes;
	struct space_range *range[SPACE_RANGES];
	struct space_pool pool[2][SPACE_POOLS + 1]; // movable or not; the last one has parts of pages
	struct space_pool whole;
	struct space_chunk *idle_first, *idle_last; // empty ones, that longest first
	bool compacting;
	struct space_mover *mover; // NULL: nothing was compacted yet
	_Atomic uint64_t in_host;  // bytes of chunks that are in the host; not under the lock
};

struct vg_movable_block {
	struct vg_memory_space *space; // held
	size_t size;
	struct space_chunk *chunk; // NULL: the space has ended
	size_t at;		   // cell
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

// ---- address.c: which pages of addresses are whose --------------------------------------------------

// A row of free pages at a multiple of `alignment`, which becomes the chunk's; *ret_found false where there is none.
bool space_place(struct vg_memory_space *space, struct space_chunk *chunk, size_t alignment);
void space_unplace(struct space_chunk *chunk);
// More addresses, for a chunk that found no place. Not under the lock. LIMIT, NO_MEMORY, DRIVER.
enum vg_status space_reserve(struct vg_memory_space *space, size_t pages, size_t alignment);
// The range that an address lies in; NULL: none.
struct space_range *space_range_of(const struct vg_memory_space *space, CUdeviceptr address);
size_t space_free_ranges(const struct vg_memory_space *space);
void space_ranges_finish(struct vg_memory_space *space);

// ---- charge.c: not under the lock -------------------------------------------------------------------

// INSUFFICIENT, with what it takes and what is left of it: `whose` is what there is too little of.
enum vg_status space_insufficient(uint64_t need, uint64_t have, const char *whose);
enum vg_status space_charge(struct vg_memory_space *space, uint64_t bytes);
void space_refund(struct vg_memory_space *space, uint64_t bytes);

// ---- chunk.c: pages of the device; at the driver, not under the lock --------------------------------

// Charged, placed and mapped, in no pool yet. INSUFFICIENT, LIMIT, NO_MEMORY, DRIVER.
enum vg_status space_chunk_create(struct vg_memory_space *space, size_t pages, size_t alignment,
				  struct space_chunk **ret_chunk);
// Creates the chunk's memory and maps it. In the context. INSUFFICIENT, DRIVER.
enum vg_status space_chunk_map(struct vg_memory_space *space, struct space_chunk *chunk);
// Releases and unmaps it. DRIVER: it is still mapped.
enum vg_status space_chunk_unmap(struct vg_memory_space *space, struct space_chunk *chunk);
// A list of chunks, by `next`, whose state is LEAVING, and for which space_leave() was counted: zeroed, unmapped,
// refunded, freed. Those that the driver does not take are empty chunks of their pools again, but with `at_any_rate`,
// where all are gone. What went is added to *ret_returned, which may be NULL. DRIVER, or what the fence says.
struct space_returned {
	uint64_t bytes;
	size_t pages;
	double ms; // zeroing and unmapping
};
enum vg_status space_give_back(struct vg_memory_space *space, struct space_chunk *list, bool at_any_rate,
			       struct space_returned *ret_returned);
// Work of the virtual GPU that was dispatched so far is done when this returns. In the context.
enum vg_status space_fence(struct vg_memory_space *space);

// ---- pool.c: cells ----------------------------------------------------------------------------------

// The chunk's cells are the pool's, all free: it is one of its empty chunks. NO_MEMORY (nothing changed): -ENOMEM.
int space_pool_adopt(struct vg_memory_space *space, struct space_pool *pool, struct space_chunk *chunk);
// Out of its pool, empty.
void space_pool_drop(struct vg_memory_space *space, struct space_chunk *chunk);
// Room for a block in the chunks that are there; false: none. The cells are the block's.
bool space_pool_take(struct vg_memory_space *space, struct space_pool *pool, size_t size, size_t alignment,
		     struct space_chunk **ret_chunk, size_t *ret_cell);
bool space_chunk_take(struct vg_memory_space *space, struct space_chunk *chunk, size_t size, size_t alignment,
		      size_t *ret_cell);
// Cells of the block that begins at `cell`.
void space_chunk_put(struct vg_memory_space *space, struct space_chunk *chunk, size_t cell);
// In the list where it belongs now.
void space_pool_sort(struct vg_memory_space *space, struct space_chunk *chunk);
// Free bytes of a pool as programs see it: of plain and of movable blocks.
uint64_t space_pool_spare(const struct vg_memory_space *space, const struct space_pool *pool);
uint64_t space_largest_free(const struct vg_memory_space *space);
uint64_t space_free_bytes(const struct vg_memory_space *space);
double space_fragmentation(const struct vg_memory_space *space);

// ---- allocate.c, block.c: blocks --------------------------------------------------------------------

enum vg_status space_block_create(struct vg_memory_space *space, size_t size, size_t alignment,
				  struct vg_movable_block *owner, vg_address *ret_address);
// The cells go; the chunks that do not stay then are put before *list, for space_tidy().
void space_block_end(struct vg_memory_space *space, struct space_chunk *chunk, size_t cell, struct space_chunk **list);
// Not under the lock: gives the chunks back. Where that fails they stay and the log is told; the last error stays, too.
void space_tidy(struct vg_memory_space *space, struct space_chunk *list);
// Returns CLOSED, STATE if the space is out, or VG_OK.
enum vg_status space_present(const struct vg_memory_space *space);
// CLOSED.
enum vg_status space_usable(const struct vg_memory_space *space);
// STATE in a forked child. Not under the lock, which another thread of the parent may have held for ever there.
enum vg_status space_here(void);
// In a public function: returns from it unless the space can be used.
#define SPACE_USABLE(space)                           \
	do {                                          \
		CORE_USABLE(space, #space);           \
		if (__builtin_expect(core_forked, 0)) \
			return space_here();          \
	} while (0)

struct space_place {
	struct space_chunk *chunk;
	size_t cell;   // where the block begins
	size_t offset; // of the address in the block
};
// The block that an address lies in. BOUNDS, STALE; `what` is the address's name.
enum vg_status space_find(const struct vg_memory_space *space, CUdeviceptr address, const char *what,
			  struct space_place *ret_place);

// ---- defragment.c: empty pages ----------------------------------------------------------------------

void space_idle_add(struct vg_memory_space *space, struct space_chunk *chunk);
void space_idle_remove(struct vg_memory_space *space, struct space_chunk *chunk);
// Takes an empty chunk out of its pool and puts it before *list, to be given back. Returns false if a call still copies
// there, or if the space is out.
bool space_leave(struct vg_memory_space *space, struct space_chunk *chunk, struct space_chunk **list);
// Every chunk that is empty.
void space_leave_all(struct vg_memory_space *space, struct space_chunk **list);
// One more operation; where it is time, empty chunks go before *list.
void space_look(struct vg_memory_space *space, struct space_chunk **list);

// ---- table.c: what calls did to pages ---------------------------------------------------------------

void space_touch(struct vg_memory_space *space, struct space_chunk *chunk, size_t offset, size_t size, bool written);
