// Moves all evictable memory of the process. The gate must be closed, the device idle, and a context current. For this
// room only; the pager's thread.
#pragma once
#include "pager/driver.h"

struct pager_slot;

// Moves memory to the host, chunk by chunk. Returns CUDA_SUCCESS; CUDA_ERROR_OUT_OF_MEMORY if the host lacks
// *ret_missing bytes, which are 0 otherwise; or the driver's error. Chunks that have moved stay in the host.
CUresult pager_move_out(struct pager_slot *slot, uint64_t *ret_missing);
// Moves all chunks that are in the host to the device. Returns CUDA_ERROR_OUT_OF_MEMORY if the device lacks
// *ret_missing bytes (0: room for something else), and then changes nothing; or the driver's error.
CUresult pager_move_in(struct pager_slot *slot, uint64_t *ret_missing);
