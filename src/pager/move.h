// Moves all evictable memory of the process. The gate must be closed, the device idle, and a context current. For this
// room only; the pager's thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "pager/driver.h"

struct pager_slot;

// Moves memory to the host, chunk by chunk, except blocks that the host has already. Returns CUDA_SUCCESS;
// CUDA_ERROR_OUT_OF_MEMORY if the host lacks *ret_missing bytes, which are 0 otherwise; or the driver's error. Chunks
// that have moved stay in the host.
CUresult pager_move_out(struct pager_slot *slot, uint64_t *ret_missing);
// Moves all chunks that are in the host to the device. `waits`: another process makes room, so each chunk is copied as
// soon as there is room for it. It is called when there is no room; it waits a moment, and returns false to give up. NULL:
// nothing is copied before there is room for everything. Returns CUDA_ERROR_OUT_OF_MEMORY if the device lacks
// *ret_missing bytes (0: room for something else), and then changes nothing; or the driver's error.
CUresult pager_move_in(struct pager_slot *slot, bool (*waits)(uint64_t waited_ns), uint64_t *ret_missing);
