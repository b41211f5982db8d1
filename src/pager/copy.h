// Copies between the device and the host, with a few under way at once, so that the copy engine never waits for the
// calls between two of them. The gate is closed and a context current. This room only.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

struct pager_slot;

enum { PAGER_UNDER_WAY = 3 };

struct pager_copy {
	CUdeviceptr address;
	uint64_t room; // in the host (pager/host.h)
	size_t size;
	// Called when the copy has succeeded, as have all before it.
	CUresult (*finish)(const struct pager_copy *copy, struct pager_slot *slot);
	void *owner; // of the memory, and which of its chunks this is: for finish()
	size_t index;
};

// Zero, but for `out` and `slot`.
struct pager_copies {
	bool out; // to the host
	struct pager_slot *slot;
	CUstream stream;
	CUevent done[PAGER_UNDER_WAY];
	struct pager_copy copies[PAGER_UNDER_WAY];
	size_t begun, finished;
	bool failed; // from then on no copy is finished, so that no memory is released whose bytes may be missing
};

// Begins a copy. Waits for the oldest one first if there are too many.
CUresult pager_copies_add(struct pager_copies *copies, const struct pager_copy *copy);
// Waits for all copies. Returns `result`, or the first failure if that is CUDA_SUCCESS.
CUresult pager_copies_end(struct pager_copies *copies, CUresult result);
