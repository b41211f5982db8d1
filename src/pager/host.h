// Pinned host memory for chunks that leave the device: anonymous memory of the process, so it goes with the process. It
// grows by pieces, which stay pinned. A chunk has a room in it, which may extend over several pieces. So rooms of all
// sizes fit without gaps, if they are taken in the same order as before. The pager's thread, or threads inside the gate.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

// Limits the host memory, in bytes.
void pager_host_limit(uint64_t bytes);
enum pager_host_step {
	PAGER_HOST_READY, // the bytes are there
	PAGER_HOST_MORE,  // call again
	PAGER_HOST_SHORT, // *ret_missing more would be needed: the host has not so much, or the limit is lower
};
// Pins one piece more towards `bytes`, if `kept` bytes of the host's memory are left when all of it is pinned. The
// context is current. Other threads that use this memory wait meanwhile.
enum pager_host_step pager_host_grow(uint64_t bytes, uint64_t kept, uint64_t *ret_missing);
// Returns whether `bytes` are pinned and free.
bool pager_host_has(uint64_t bytes);
// Takes a room of a multiple of 2 MiB from what is pinned and free. Returns 0 if it does not fit.
uint64_t pager_host_take(size_t size);
void pager_host_give(uint64_t room, size_t size);
// Returns where a room begins, or a byte within one. A copy may take *ret_size bytes from there, and not more.
void *pager_host_at(uint64_t room, size_t *ret_size);
// The context has gone, and the pinning that was done in it. NULL: all pinning.
void pager_host_forget(CUcontext context);
