// Protects against SIGBUS when the file of a mapped ledger is truncated. The users of a vGPU can do that, and must not
// kill a process that writes to their ledger, such as a restore by root. Any thread; calls do not nest.
#pragma once
#include "ledger/ledger.h"

// From now on, if the calling thread accesses the mapping of a truncated file, empty memory replaces the mapping.
// Replaces the process's handler of SIGBUS meanwhile, and calls it for all other faults.
void vg_ledger_guard(const struct vg_ledger *ledger);
// Ends the protection. Returns whether the file was truncated: then everything read or written meanwhile is invalid.
bool vg_ledger_unguard(void);
