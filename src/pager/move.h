// Moves all evictable memory of the process. The gate is closed, the device idle, and a context current. This room only.
#pragma once
#include "pager/driver.h"

struct pager_slot;

// To the host, chunk by chunk. CUDA_SUCCESS; CUDA_ERROR_OUT_OF_MEMORY: the host had no room, and *ret_missing bytes
// are missing; other codes: the driver failed. What left stays in the host.
CUresult pager_move_out(struct pager_slot *slot, uint64_t *ret_missing);
// To the device: all chunks that are in the host. CUDA_ERROR_OUT_OF_MEMORY: the device has no room, and nothing has
// changed; other codes: the driver failed.
CUresult pager_move_in(struct pager_slot *slot, uint64_t *ret_missing);
