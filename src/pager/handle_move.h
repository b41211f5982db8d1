// Moves the memory of handles, as a part of pager/move.h. The gate is closed and a context current. This room only.
#pragma once
#include "pager/copy.h"
#include "pager/handle.h"

// Takes rooms in the host for all memory that can leave and has none.
void pager_handles_take_host(void);
// Gives back the rooms of handles that are on the device and have no copy. Call it after every move to the host, also
// one that failed.
void pager_handles_give_host(void);
// Before a move to the host: marks all blocks as changed, and notes the access rights of mappings.
CUresult pager_handles_begin(void);
// Hashes what is on the device and can leave (pager/blocks.h).
CUresult pager_handles_hash(void);
// Begins the copies to the host. The end of a handle's last copy releases its memory.
CUresult pager_handles_begin_out(struct pager_copies *copies);
// Creates the memory of all handles that have none on the device.
CUresult pager_handles_create(void);
uint64_t pager_handles_count_absent(void);
uint64_t pager_handles_count_away(void);
// Creates missing memory, maps it at its addresses and, for the copies, at a window, and begins the copies to the
// device. Stores the result of a copy that could not begin in *ret_copied.
CUresult pager_handles_bring(struct pager_copies *copies, CUresult *ret_copied);
// Unmaps and releases the memory of handles whose bytes are in the host.
CUresult pager_handles_release(void);
// Notes that all bytes are on the device.
CUresult pager_handles_note_return(void);
