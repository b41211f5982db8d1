/* The memory of a virtual GPU: a range of reserved addresses, pages that are mapped there on demand, and blocks in
 * them.
 *
 * * A space reserves addresses, which takes no memory, and maps pages there when blocks need them. A page is the unit
 * that the device maps, 2 MiB or a multiple. Small blocks are in pages of their size class (a pool), larger ones take
 * some of the 64 parts of a page, and blocks of a page or more have their own pages. Memory is charged once for each
 * page, before the page is made. Empty pages are kept for later blocks, up to the size of the pool. Pages are zeroed
 * before they return to the device, and new pages are zero.
 *
 * * Any thread may use a space at any time. Calls that copy return when the copy is done; they run after work that
 * was queued on the legacy default stream before, and do not wait for other streams. Do not free a block while the
 * device still uses it: the next block may get its memory at once. Before pages return to the device, the call waits
 * for work that was queued before; without a manager it waits for all work of the context, which invalidates
 * captures. In a forked child every call fails with VG_STATE. */
#ifndef VIRGATE_MEMORY_SPACE_H
#define VIRGATE_MEMORY_SPACE_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/context.h>
#include <virgate/cuda_handles.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_memory_space;

struct vg_memory_space_options {
	size_t size;	/* sizeof(struct vg_memory_space_options) */
	uint64_t limit; /* bytes of device memory that the space may have at once; must be given */
	/* Size of a page, at most 1 GiB, rounded up to the device's granularity (2 MiB); 0: 4096. */
	size_t page_size;
	size_t max_pages;      /* addresses are reserved for no more pages than this; 0: 1048576 */
	unsigned pools;	       /* size classes; 0: 8 */
	size_t base_pool_size; /* pool i keeps up to base_pool_size << i free bytes, in whole pages; 0: 1 MiB */
	/* Pool i has blocks of base_block_size << i bytes. This size is a power of two and at least 256; 0: 1 KiB. The
	 * blocks of the last pool must not exceed the granularity. */
	size_t base_block_size;
	double defragmentation_threshold; /* above 0 and up to 1; 0: 0.3 */
	/* Nonzero: defragment only on request; 0: also automatically, above the threshold. */
	int manual_defragmentation;
};
/* Creates a space on the context's device. The caller owns *ret_space and ends it with vg_memory_space_destroy().
 * INVALID (no limit, one above the device's memory, an option out of range), UNSUPPORTED (a device without virtual
 * memory), CLOSED, NO_MEMORY, STATE, DRIVER. Any thread. Source: cuMemAddressReserve. */
VG_PUBLIC enum vg_status vg_memory_space_create(struct vg_context *context,
						const struct vg_memory_space_options *options,
						struct vg_memory_space **ret_space);
/* Closes the space if it is not closed yet, and drops the caller's reference; a failure goes to the log. Accepts NULL.
 * No other thread may be in a call that names the space. */
VG_PUBLIC void vg_memory_space_destroy(struct vg_memory_space *space);
/* Frees all blocks, reports their number to the log callback, and returns all pages to the device. Later calls
 * return CLOSED. Waits for calls of other threads. May be called twice. INVALID, STATE; DRIVER: a page could not be
 * zeroed or returned; all other pages were. Any thread. */
VG_PUBLIC enum vg_status vg_memory_space_close(struct vg_memory_space *space);

/* ---- blocks --------------------------------------------------------------------------------------- */

/* Allocates `size` bytes at a multiple of `alignment`, a power of two up to 1 GiB; 0: 256. Memory that is new to the
 * space is zero. Memory that another block of the space had may still have that block's contents. INVALID (size 0 or
 * beyond any limit, the alignment), INSUFFICIENT (vg_last_error() has `need` and `have`; empty pages were returned
 * before), LIMIT (no addresses are left), CLOSED, NO_MEMORY, STATE, DRIVER. After a failure nothing has changed. Any
 * thread. */
VG_PUBLIC enum vg_status vg_memory_space_allocate(struct vg_memory_space *space, size_t size, size_t alignment,
						  vg_address *ret_address);
/* Frees the block at the address that vg_memory_space_allocate() returned. BOUNDS (not an address of this space), STALE
 * (no block there: it was freed, or never allocated), INVALID (inside of a block, or a movable block), CLOSED, STATE.
 * Pages that the driver fails to free stay charged, are freed later, and are logged. Any thread. */
VG_PUBLIC enum vg_status vg_memory_space_free(struct vg_memory_space *space, vg_address address);

/* These functions copy `size` bytes between the program's memory and a block, or within a block, or set them to
 * `value`, 0 to 255. The bytes may begin anywhere in a block and must end in it; 0 bytes are allowed, also at its end.
 * BOUNDS (an address outside the space, such as one of the program's, or bytes beyond the block's end), STALE (nothing
 * is allocated there), INVALID (NULL, or device memory instead of the program's; a value out of range; ranges that
 * overlap), STATE (a movable block that is not pinned), CLOSED, DRIVER. Unless the result is DRIVER, a failed call has
 * read and written nothing. Any thread. Sources: cuMemcpyHtoD, cuMemcpyDtoH, cuMemcpyDtoD, cuMemsetD8. */
VG_PUBLIC enum vg_status vg_memory_space_write(struct vg_memory_space *space, vg_address to, const void *from,
					       size_t size);
VG_PUBLIC enum vg_status vg_memory_space_read(struct vg_memory_space *space, void *to, vg_address from, size_t size);
VG_PUBLIC enum vg_status vg_memory_space_copy(struct vg_memory_space *space, vg_address to, vg_address from,
					      size_t size);
VG_PUBLIC enum vg_status vg_memory_space_set(struct vg_memory_space *space, vg_address to, int value, size_t size);
/* Copies from one space to another one, of any device. Source: cuMemcpyPeer. */
VG_PUBLIC enum vg_status vg_memory_space_copy_peer(struct vg_memory_space *to_space, vg_address to,
						   struct vg_memory_space *from_space, vg_address from, size_t size);

/* ---- what there is -------------------------------------------------------------------------------- */

/* Figures of a space at one moment, in bytes. held = allocated + padding + free, except for pages that are being mapped
 * or unmapped. */
struct vg_memory_space_info {
	uint64_t limit;
	uint64_t held;	       /* charged bytes: the size of all pages */
	uint64_t allocated;    /* bytes that programs requested */
	uint64_t padding;      /* bytes that the blocks take beyond the requested ones */
	uint64_t free;	       /* bytes of the pages that are not in use */
	uint64_t largest_free; /* size of the largest block that fits into the pages without another page */
	size_t page_size, pages, blocks, movable_blocks;
	unsigned pools;	      /* number of pools that vg_memory_space_pool() describes */
	double fragmentation; /* 1 - largest free / free; 0 if nothing is free */
	double padding_waste; /* padding / (allocated + padding); 0 if nothing is allocated */
	uint64_t defragmentations, automatic_defragmentations, compactions, bytes_moved; /* so far */
};
/* Fills in the figures of the space. INVALID, CLOSED, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_memory_space_info(struct vg_memory_space *space, struct vg_memory_space_info *ret_info);

enum vg_tristate { VG_TRISTATE_UNKNOWN, VG_TRISTATE_NO, VG_TRISTATE_YES };

/* A page of addresses. The device does not report who wrote to a page. So `dirty` and `accessed` describe the space's
 * own calls, including compaction, since the page came from the device. YES: such a call has written to the page, or
 * accessed it. UNKNOWN: no call has, but a program has got an address in these pages, so a kernel may have. NO:
 * neither. `last_access_ns` is the time of the latest of these calls; a kernel may have accessed the page later. */
struct vg_page {
	vg_address address; /* address at which the page begins */
	uint64_t physical;  /* number of the physical page, which no other page of the space ever had; 0: none */
	size_t size;
	int valid; /* nonzero: the page has memory */
	enum vg_tristate dirty, accessed;
	uint64_t last_access_ns; /* time of the last access, on the monotonic clock; 0: unknown */
};
/* Describes the page that contains an address of the space, mapped or not. BOUNDS, INVALID, CLOSED, STATE. Any
 * thread. */
VG_PUBLIC enum vg_status vg_memory_space_page(struct vg_memory_space *space, vg_address address,
					      struct vg_page *ret_page);
/* Lists all pages with memory, ordered by address within each reserved range. If `pages` is NULL and `capacity` 0,
 * only counts them. LIMIT (there are more than `capacity`), INVALID, CLOSED, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_memory_space_pages(struct vg_memory_space *space, struct vg_page *pages, size_t capacity,
					       size_t *ret_count);

struct vg_pool_info {
	/* Size of the pool's blocks. In the last but one pool, the unit of block sizes; in the last pool, a page. */
	size_t block_size;
	size_t pool_size;  /* free bytes that the pool keeps, rounded up to pages */
	size_t blocks;	   /* number of allocated blocks */
	size_t free_bytes; /* free bytes in the pool's pages */
};
/* Describes a pool. Pools are numbered from 0: the size classes, then blocks between the largest class and a page,
 * then whole pages. NOT_FOUND (the text has the number of pools), INVALID, CLOSED, STATE. */
VG_PUBLIC enum vg_status vg_memory_space_pool(struct vg_memory_space *space, unsigned index,
					      struct vg_pool_info *ret_info);
/* Sets how many free bytes the pool keeps from now on, rounded up to pages. Returns further free pages to the
 * device. NOT_FOUND, INVALID, CLOSED, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_memory_space_set_pool_size(struct vg_memory_space *space, unsigned index, size_t bytes);

/* ---- movable blocks ------------------------------------------------------------------------------- */

/* A block without a fixed address: compaction may move it while it is not pinned. While it is pinned its address
 * does not change. Kernels that use the address must have ended before it is unpinned. */
struct vg_movable_block;

/* Allocates a movable block like vg_memory_space_allocate(). The caller owns *ret_block, and ends it with
 * vg_movable_block_destroy(). The block keeps the space's object alive. After the space is closed, the block has no
 * memory. Any thread. */
VG_PUBLIC enum vg_status vg_movable_block_create(struct vg_memory_space *space, size_t size,
						 struct vg_movable_block **ret_block);
/* Frees the memory, pinned or not, waiting if it is being moved. Accepts NULL. No other thread may use the block. */
VG_PUBLIC void vg_movable_block_destroy(struct vg_movable_block *block);
/* Pins the block, after waiting until it is not being moved. Each pin needs one unpin. LIMIT (pinned 2^32 - 1
 * times), CLOSED, INVALID, STATE. Any thread. */
VG_PUBLIC enum vg_status vg_movable_block_pin(struct vg_movable_block *block, vg_address *ret_address);
/* Unpins the block. STATE (the block is not pinned), CLOSED, INVALID. Any thread. */
VG_PUBLIC enum vg_status vg_movable_block_unpin(struct vg_movable_block *block);
/* Returns the requested size; 0 for NULL. */
VG_PUBLIC size_t vg_movable_block_size(const struct vg_movable_block *block);

/* ---- tidying up ----------------------------------------------------------------------------------- */

struct vg_defragment_result {
	uint64_t bytes_returned; /* bytes returned to the device, in empty pages */
	size_t pages_returned;
	/* By how much the number of free address ranges fell; 0 if the pages of a block were between two used ranges.
	 * */
	size_t ranges_joined;
	double before, after; /* fragmentation */
};
/* Returns empty pages to the device, and joins their addresses with the free addresses beside them; no block moves.
 * `ret_result` may be NULL. If fragmentation is above the threshold, vg_memory_space_allocate() and _free() do this
 * automatically: for pages that stayed empty for 1024 of these calls, a few at a time. INVALID, CLOSED, STATE, DRIVER
 * (the pages that were not returned are unchanged). Any thread. */
VG_PUBLIC enum vg_status vg_memory_space_defragment(struct vg_memory_space *space,
						    struct vg_defragment_result *ret_result);

struct vg_compact_progress {
	uint64_t bytes_moved; /* so far */
	size_t blocks_moved;
	double milliseconds; /* time since the call began */
};
struct vg_compact_options {
	size_t size;		 /* sizeof(struct vg_compact_options) */
	uint64_t max_bytes;	 /* maximum number of bytes to move; 0: no limit */
	double max_milliseconds; /* no pass begins after this time; a pass moves at most 512 MiB. 0: no limit */
	/* Called after each pass, on the calling thread, without a lock: a nonzero result stops. It may use the space.
	 * NULL: none. */
	int (*progress)(void *user, const struct vg_compact_progress *progress);
	void *user;
};
struct vg_compact_result {
	uint64_t bytes_moved, bytes_returned; /* bytes of moved blocks; bytes of pages returned to the device */
	size_t blocks_moved;
	/* Nonzero: no more blocks can be moved; 0: a bound or the callback ended the compaction. */
	int complete;
	double copy_ms, verify_ms; /* time on the device, by the device's clock */
	double remap_ms;	   /* zeroing and unmapping of the returned pages */
	double before, after;	   /* fragmentation */
};
/* Moves movable blocks that are not pinned from the emptiest pages of their size to fuller ones. Compares each copy
 * with its source on the device before it frees the source, and returns the emptied pages to the device. Needs no
 * additional device memory. Other calls may run meanwhile; vg_movable_block_pin() of a block that is being moved waits
 * for the pass. `options` and `ret_result` may be NULL. BUSY (another thread compacts the space), INTEGRITY (a copy
 * differs from its source: the pass is rolled back, none of its blocks has moved), INVALID, CLOSED, NO_MEMORY, STATE,
 * DRIVER (the pass is rolled back, too). Earlier passes of the call are not rolled back. `ret_result` is also written
 * if the result is INTEGRITY or DRIVER. Any thread. */
VG_PUBLIC enum vg_status vg_memory_space_compact(struct vg_memory_space *space,
						 const struct vg_compact_options *options,
						 struct vg_compact_result *ret_result);

#ifdef __cplusplus
}
#endif
#endif
