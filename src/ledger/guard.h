// Protects a process from SIGBUS when the file of a mapped ledger is truncated. The users of a vGPU can truncate its
// ledger. This must not kill another process that writes to it, such as a restore by root. Any thread; calls do not
// nest.
#pragma once
#include "ledger/ledger.h"

// Begins the protection: if the calling thread accesses the mapping of a truncated file, empty memory replaces the
// mapping. The protection replaces the process's handler of SIGBUS, and calls that handler for all other faults.
void vg_ledger_guard(const struct vg_ledger *ledger);
// Ends the protection. Returns whether the file was truncated: then everything read or written under the protection is
// invalid.
bool vg_ledger_unguard(void);
