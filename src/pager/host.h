// Pinned host memory for chunks that leave the device: anonymous memory of the process, so it goes with the process. It
// grows by pieces, which stay pinned. The pager's thread, or whoever is inside the gate.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

// The most that may be taken, in bytes. Ranges of different sizes leave gaps, so pieces can take more.
void pager_host_limit(uint64_t bytes);
// Grows until `bytes` are there or the limit is reached. The context is current. 0, or the bytes that are missing: the
// host has not so much, or the limit is lower.
uint64_t pager_host_prepare(uint64_t bytes);
// Whether so many bytes are there.
bool pager_host_suffices(uint64_t bytes);
// Grows by one piece towards `bytes`, unless little of the host's memory would be left. The context is current. Returns
// whether another call would add more.
bool pager_host_grow(uint64_t bytes);
// A range of at most PAGER_CHUNK bytes, in multiples of 2 MiB. NULL: none left.
void *pager_host_take(size_t size);
void pager_host_give(void *range, size_t size);
// The context has gone, and the pinning that was done in it. NULL: all pinning.
void pager_host_forget(CUcontext context);
uint64_t pager_host_bytes(void);
