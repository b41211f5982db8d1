// The window: a small file in a tmpfs through which a restore passes device memory to the process. The restore reads
// blocks of an image into places of the window, and the pager copies them from there to the device, so the host never
// needs room for all of the memory. This file declares the contents of the file, and the pager's functions for it. Only
// the pager's thread calls them.
//
// Order: the process stores the list of the blocks that it needs, in the order of its copies, and sets `state` to
// WINDOW_READING. The restore puts the block with the number N in that list into the place N % `places`, but not before
// `taken` is greater than N - `places`, and then stores N + 1 in `ready` of that place. When a copy to the device has
// ended, the process raises `taken`. At the end it sets `state`.
//
// As long as the restore serves the window, it holds a lock on the file (flock). So the process notices if the restore
// has ended, also after SIGKILL.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pager_file;

enum {
	WINDOW_BLOCK = 2 << 20,
	WINDOW_MOST = 256, // the most places
	// A window has at least so many places, or one for each block. The pager has several copies under way, and does
	// not give a place back before its copy has ended.
	WINDOW_LEAST = 192,
	WINDOW_ORDER = 4096, // offset of the list of blocks, an uint32_t for each
};

enum window_state {
	WINDOW_IDLE, // the process has not begun
	WINDOW_READING,
	WINDOW_DONE,	 // all memory is on the device
	WINDOW_DECLINED, // the memory cannot be on the device now, so the restore must put it into a file
	WINDOW_BROKEN,	 // the memory is lost
};

struct window_head {
	// Written by the restore before the process runs
	uint64_t blocks; // number of blocks of the memory
	uint64_t places;
	// Written by the restore. `closed`: 1: it does not wait any longer for the process to begin. `failed`: 1: a
	// block cannot be read.
	_Atomic uint32_t closed, failed;
	_Atomic uint64_t ready[WINDOW_MOST];
	// Written by the process
	_Atomic uint32_t state;	 // enum window_state
	_Atomic uint64_t wanted; // length of the list of blocks
	_Atomic uint64_t taken;	 // the first `taken` blocks of the list are on the device
};
_Static_assert(sizeof(struct window_head) <= WINDOW_ORDER, "the list of blocks follows the head");

// Returns the offset of the first place in a window for a memory of `blocks` blocks.
static inline uint64_t window_places_at(uint64_t blocks)
{
	return (WINDOW_ORDER + blocks * sizeof(uint32_t) + WINDOW_BLOCK - 1) / WINDOW_BLOCK * WINDOW_BLOCK;
}

// Opens a window and maps it. Returns 0 or -errno; -ECANCELED: this process has declined the window before;
// -ECONNRESET: the restore has ended.
int pager_window_open(const struct pager_file *file);
// Pins the window and begins with the list of blocks that pager_window_want() has made. A context is current. Returns
// false if the restore does not wait any longer.
bool pager_window_begin(void);
// Adds a block to the list of needed blocks.
void pager_window_want(uint64_t block);
// Waits for the next block of the list, and returns its address. Returns NULL if it does not come; pager_window_error()
// is then not 0.
void *pager_window_next(void);
// Returns how many blocks pager_window_next() has returned. 0: also if no window is open.
uint64_t pager_window_count(void);
// Gives back the places of the first `count` blocks: their copies have ended. Does nothing if no window is open.
void pager_window_give(uint64_t count);
// Returns an errno if the window has failed: ECONNRESET: the restore has ended; EIO: a block cannot be read.
int pager_window_error(void);
// Unpins the window. The context in which it was pinned is current.
void pager_window_unpin(void);
// Closes the window in a forked child, which does not have the memory.
void pager_window_reset(void);
// Reports the outcome to the restore, and closes the window. Removes its name, unless it was declined.
void pager_window_end(enum window_state outcome);
