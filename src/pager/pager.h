// The pager: a thread that moves the device memory of its process to the host and back when the daemon asks for it
// (pager/page.h). Its own driver calls do not pass the gate. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

struct pager_page;
struct pager_slot;

struct pager_options {
	const struct pager_page *page; // of the vGPU
	// Returns the slot of this process; after a restore it is another one. NULL: none.
	struct pager_slot *(*slot)(void);
	// Returns how often this process was restored. Its slot is a new one then, also at the same place.
	uint32_t (*restores)(void);
	// Returns the kernel's own CLOCK_MONOTONIC, which a time namespace does not change.
	uint64_t (*clock_ns)(void);
	// Stores the live contexts of the process and returns how many there are; more than `most` are not stored.
	size_t (*contexts)(CUcontext *contexts, size_t most);
	// Returns whether a stream is being captured.
	bool (*captures)(void);
	// Tells the user why a move failed, from the values of the slot.
	void (*failed)(const struct pager_slot *slot);
	// Tells the user that the GPU could not hash memory that has moved, so that all of it was copied.
	void (*not_hashed)(const struct pager_slot *slot);
	// Tells the user how long a thread has been waiting.
	void (*waits)(uint64_t waited_ns);
	uint64_t host_limit; // bytes
	uint64_t hash_least; // bytes: with less memory, the pager does not look for unchanged blocks
	// If the host has less memory available and no other vGPU competes, the pager releases pinned memory that it
	// does not need.
	uint64_t host_least;
};

// Starts the thread, which blocks all signals. Call it once. Returns 0 or -errno.
int pager_start(const struct pager_options *options);
// Publishes the amount of evictable memory, after it has changed.
void pager_note_bytes(void);
// Notes a change of the charge for evictable memory. Call it before a charge, and after a refund.
void pager_note_charge(int64_t bytes);
// Resets the state in a forked child, which has no pager.
void pager_reset(void);
