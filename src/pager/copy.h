// Copies between the device and the host, with a few under way at once, so that the copy engine never waits for the
// calls between two of them. The gate is closed and a context current. This room only.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

struct pager_room;
struct pager_slot;

enum { PAGER_UNDER_WAY = 3 };

struct pager_copy {
	CUdeviceptr address;
	struct pager_room *room; // in the host; only its changed blocks are copied to it
	size_t size;
	// Called when the copy has succeeded, as have all before it that copied anything.
	CUresult (*finish)(const struct pager_copy *copy, struct pager_slot *slot);
	void *owner; // of the memory, and which of its chunks this is
	size_t index;
};

// Zero, but for `out`, `slot` and `waits`.
struct pager_copies {
	bool out; // to the host
	struct pager_slot *slot;
	// Waits a moment for room on the device. Returns false to stop waiting. NULL: do not wait.
	bool (*waits)(uint64_t waited_ns);
	uint64_t unchanged; // bytes that were not copied, because the host has them
	CUstream stream;
	CUevent done[PAGER_UNDER_WAY];
	struct pager_copy copies[PAGER_UNDER_WAY];
	size_t begun, finished;
	// The first failure. After it no copy is finished, so that no memory is released whose bytes may be missing.
	CUresult failure;
};

// Creates the stream, if it has not been. The functions below do it, too.
CUresult pager_copies_start(struct pager_copies *copies);
// Calls create(owner, index), and again while the device has no room and waits() returns true. Copies end meanwhile.
CUresult pager_copies_create(struct pager_copies *copies, CUresult (*create)(void *owner, size_t index), void *owner,
			     size_t index);
// Begins a copy. If too many are running, waits for the oldest one first. A copy without changed blocks ends at once.
CUresult pager_copies_add(struct pager_copies *copies, const struct pager_copy *copy);
// Waits for all copies. Returns `result`, or the first failure of a copy if that is CUDA_SUCCESS.
CUresult pager_copies_end(struct pager_copies *copies, CUresult result);
