// Pinned host memory for chunks that leave the device: anonymous memory of the process, so it goes with the process. It
// grows by pieces, which stay pinned. The pager's thread, or threads inside the gate.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

// The most that may be taken, in bytes. Ranges of different sizes leave gaps, so pieces can take more.
void pager_host_limit(uint64_t bytes);
enum pager_host_step {
	PAGER_HOST_READY, // the bytes are there
	PAGER_HOST_MORE,  // call again
	PAGER_HOST_SHORT, // *ret_missing more would be needed: the host has not so much, or the limit is lower
};
// Pins one piece more towards `bytes`, if `kept` bytes of the host's memory are left when all of it is pinned. The
// context is current. Other threads that use this memory wait meanwhile.
enum pager_host_step pager_host_grow(uint64_t bytes, uint64_t kept, uint64_t *ret_missing);
// A range of at most PAGER_CHUNK bytes, in multiples of 2 MiB. NULL: none left.
void *pager_host_take(size_t size);
void pager_host_give(void *range, size_t size);
// The context has gone, and the pinning that was done in it. NULL: all pinning.
void pager_host_forget(CUcontext context);
