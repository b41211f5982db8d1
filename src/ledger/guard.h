// Protects a process from SIGBUS when the file of a mapped ledger is truncated. The users of a vGPU can truncate its
// ledger. This must not kill another process that writes to it, such as a restore by root. Any thread; calls do not
// nest.
#pragma once
#include "ledger/ledger.h"

// Begins the protection. If the calling thread accesses the mapping of a truncated file, zeroed memory replaces the
// mapping. Installs a SIGBUS handler, which passes all other faults to the handler of the program.
void vg_ledger_guard(const struct vg_ledger *ledger);
// Ends the protection. Returns whether the file was truncated: then everything read or written under the protection is
// invalid.
bool vg_ledger_unguard(void);
