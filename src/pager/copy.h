// Copies between the device and the host. A few copies are under way at once, so that the copy engine never waits for
// driver calls. The gate is closed and a context current. Only files of src/pager include this header.
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
	struct pager_room *room; // the room in the host; a copy to the host copies only the changed blocks
	size_t size;
	// Called after this copy has succeeded, and after all earlier copies that had bytes to move.
	CUresult (*finish)(const struct pager_copy *copy, struct pager_slot *slot);
	void *owner; // the allocation or handle whose memory is copied; `index`: number of the chunk in it
	size_t index;
};

// A series of copies in one direction. The caller sets `out`, `slot` and `waits`, and initializes all other members
// with zero.
struct pager_copies {
	bool out; // true: from the device to the host
	struct pager_slot *slot;
	// Called if the device has no free memory. It waits a moment, and returns false to give up. NULL: give up at
	// once.
	bool (*waits)(uint64_t waited_ns);
	uint64_t unchanged; // bytes that were not copied, because the host has the same bytes
	CUstream stream;
	CUevent done[PAGER_UNDER_WAY];
	struct pager_copy copies[PAGER_UNDER_WAY];
	uint64_t blocks[PAGER_UNDER_WAY]; // pager_window_count() after each copy had begun
	size_t begun, finished;
	// The first failure of a copy. After it, no copy is finished: otherwise memory could be released whose bytes
	// were not copied.
	CUresult failure;
};

// Creates the stream for the copies if it does not exist. The functions below also do this.
CUresult pager_copies_start(struct pager_copies *copies);
// Calls create(owner, index), which creates device memory. Calls it again as long as the device has no room and waits()
// returns true. Running copies continue meanwhile.
CUresult pager_copies_create(struct pager_copies *copies, CUresult (*create)(void *owner, size_t index), void *owner,
			     size_t index);
// Begins a copy. If too many copies are running, waits for the oldest one first. A copy without changed blocks ends at
// once.
CUresult pager_copies_add(struct pager_copies *copies, const struct pager_copy *copy);
// Waits for all copies. Returns `result`, or, if that is CUDA_SUCCESS, the first failure of a copy.
CUresult pager_copies_end(struct pager_copies *copies, CUresult result);
