// The pager: a thread that moves the device memory of its process to the host and back when the daemon asks for it
// (pager/page.h). The pager's own driver calls do not pass the gate. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

struct pager_page;
struct pager_slot;

struct pager_options {
	const struct pager_page *page; // the page of the vGPU
	// Returns the slot of this process; NULL: it has no slot. After a restore, the process has another slot.
	struct pager_slot *(*slot)(void);
	// Returns how often this process was restored. After each restore its slot is a new one, even at the same
	// address.
	uint32_t (*restores)(void);
	// Returns the kernel's CLOCK_MONOTONIC, which no time namespace changes.
	uint64_t (*clock_ns)(void);
	// Stores the live contexts of the process, at most `most`, and returns how many contexts there are.
	size_t (*contexts)(CUcontext *contexts, size_t most);
	// Returns whether a stream is being captured.
	bool (*captures)(void);
	// Tells the user why a move failed. The slot has the reason.
	void (*failed)(const struct pager_slot *slot);
	// Tells the user that the GPU could not hash the memory that has moved, so that all of it was copied.
	void (*not_hashed)(const struct pager_slot *slot);
	// Tells the user how long a thread has been waiting at the gate.
	void (*waits)(uint64_t waited_ns);
	uint64_t host_limit; // maximum host memory to use, in bytes
	uint64_t hash_least; // least memory, in bytes, for which the pager looks for unchanged blocks
	// If the host has fewer bytes available than this and no other vGPU competes, the pager releases pinned memory
	// that it does not need.
	uint64_t host_least;
};

// Starts the thread, which blocks all signals. Call it once. Returns 0 or -errno.
int pager_start(const struct pager_options *options);
// Publishes the amount of evictable memory in the slot. Call it after that amount has changed.
void pager_note_bytes(void);
// Notes a change of the charge for evictable memory. Call it before the memory is charged, and after it is refunded.
void pager_note_charge(int64_t bytes);
// Resets the state of the pager in a forked child, which has no pager thread.
void pager_reset(void);
