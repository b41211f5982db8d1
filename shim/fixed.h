// The fixed part of an evictable vGPU: the most memory that cannot move to the host. Any thread.
#pragma once
#include <stdbool.h>

#include "abi/cuda_abi.h"

// The memory of this process can move to the host (shim/evict.h). False in all other vGPUs, and in a forked child.
extern bool shim_evictable;

// Notes a change of the charge for memory that can move. Call it before a charge, and after a refund.
void shim_fixed_note_evictable(int64_t bytes);
// Returns true if `bytes` more of memory that cannot move would exceed the fixed part.
bool shim_fixed_exceeds(uint64_t bytes);
// Reports a refusal for that reason to the user and in the vGPU's log.
void shim_fixed_refuse(enum vg_entry entry, uint64_t bytes);
