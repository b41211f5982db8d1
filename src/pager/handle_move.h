// Moves the memory of handles, as a part of pager/move.h. The gate is closed and a context current. This room only.
#pragma once
#include "pager/copy.h"
#include "pager/handle.h"

// Takes rooms in the host for all that can leave. Returns how many bytes got none.
uint64_t pager_handles_take_host(void);
// Undoes that for handles that are on the device, also after a copy that failed.
void pager_handles_give_host(void);
// Begins the copies to the host. The end of a handle's last copy releases its memory.
CUresult pager_handles_begin_out(struct pager_copies *copies);
// Creates the memory of all handles that have none on the device.
CUresult pager_handles_create(void);
uint64_t pager_handles_count_absent(void);
// Maps all memory at its addresses, and where the copies need it.
CUresult pager_handles_map(void);
// Undoes both for handles whose bytes are in the host.
CUresult pager_handles_release(void);
// Begins the copies to the device.
CUresult pager_handles_begin_in(struct pager_copies *copies);
