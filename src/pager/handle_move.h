// Moves the memory of handles, as a part of pager/move.h. The gate is closed and a context current. This room only.
#pragma once
#include "pager/copy.h"
#include "pager/handle.h"

// Takes room in the host for all that can leave, and adds to *missing what the host lacks.
void pager_handles_take_host(uint64_t *missing);
// Undoes that for handles that are on the device, also after a copy that failed.
void pager_handles_give_host(void);
// Begins the copies to the host. The end of a handle's last copy releases its memory.
CUresult pager_handles_begin_out(struct pager_copies *copies);
// Creates the memory of all handles that are away, unless `result` or a creation is a failure: *missing counts the
// bytes that were not created.
CUresult pager_handles_create(CUresult result, uint64_t *missing);
// Undoes that.
void pager_handles_uncreate(void);
// Maps the memory that was created at its addresses, and begins the copies to the device.
CUresult pager_handles_begin_in(struct pager_copies *copies);
