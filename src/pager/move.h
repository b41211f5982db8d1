// Moves all evictable memory of the process. The gate must be closed, the device idle, and a context current. Only
// files of src/pager include this header. Only the pager's thread calls these functions.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "pager/driver.h"

struct pager_slot;

// Moves memory to the host, chunk by chunk. Blocks that have not changed since their last copy are not copied. Returns
// CUDA_SUCCESS or the driver's error, or CUDA_ERROR_OUT_OF_MEMORY if the host lacks *ret_missing bytes (0 if another
// step failed). Chunks that have moved stay in the host.
CUresult pager_move_out(struct pager_slot *slot, uint64_t *ret_missing);
// Lists the blocks of the parked file that pager_move_in() will read, in the order of its copies, for the window.
void pager_move_list(void);
// Moves all chunks that are in the host to the device. If another process is making room, pass `waits`: then each chunk
// is copied as soon as the device has room for it. waits() is called when there is no room; it waits a moment, and
// returns false to give up. With NULL, no chunk is copied before there is room for all. Returns the driver's error, or
// CUDA_ERROR_OUT_OF_MEMORY if the device lacks *ret_missing bytes (0: the driver lacks memory for something else).
// After an error, nothing has changed.
CUresult pager_move_in(struct pager_slot *slot, bool (*waits)(uint64_t waited_ns), uint64_t *ret_missing);
