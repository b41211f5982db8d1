// The pager: a thread of the process that moves its device memory to the host and back, as the daemon wishes
// (pager/page.h). All its driver calls go past the gate.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

struct pager_page;
struct pager_slot;

struct pager_options {
	const struct pager_page *page; // of the vGPU
	// This process's slot, which is another one after a restore; NULL: none.
	struct pager_slot *(*slot)(void);
	// The kernel's own CLOCK_MONOTONIC.
	uint64_t (*clock_ns)(void);
	// Stores the live contexts of the process and returns how many there are; more than `most` are not stored.
	size_t (*contexts)(CUcontext *contexts, size_t most);
	// Whether a stream is being captured.
	bool (*captures)(void);
	// Tells the user why a move failed, with the values of the slot; and that a thread has been waiting for so long.
	void (*failed)(const struct pager_slot *slot);
	void (*waits)(uint64_t waited_ns);
	uint64_t host_limit; // bytes
};

// Starts the thread, which blocks all signals. Once. 0 or -errno.
int pager_start(const struct pager_options *options);
// The amount of evictable memory has changed.
void pager_note_bytes(void);
// So much more or less is charged for evictable memory: before a charge, and after a refund.
void pager_note_charge(int64_t bytes);
// In the child after fork(): it has no pager.
void pager_reset(void);
