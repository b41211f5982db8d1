// Checks the fixed part of an evictable vGPU's limit. The charged memory that cannot move to the host must not exceed
// the fixed part. Any thread.
#pragma once
#include <stdbool.h>

#include "abi/cuda_abi.h"

// True if memory of this process can move to the host (shim/evict.h). It is false in vGPUs that are not evictable, and
// in a forked child.
extern bool shim_evictable;

// Notes a change of the charge for evictable memory. Call it before the memory is charged, and after it is refunded. In
// this order, the sum of memory that cannot move is never too high, so no process of the vGPU is refused wrongly.
void shim_fixed_note_evictable(int64_t bytes);
// Returns true if the fixed part has no room for another `bytes` of memory that cannot move.
bool shim_fixed_exceeds(uint64_t bytes);
// Reports to the user, and in the vGPU's log, that the fixed part has no room.
void shim_fixed_refuse(enum vg_entry entry, uint64_t bytes);
