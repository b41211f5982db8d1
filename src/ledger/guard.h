// Survives the truncation of a ledger that is mapped. Its file belongs to its users, and whoever writes in the vGPUs of
// others, such as a restore by root, must not be ended by them with SIGBUS. Any thread; not nested.
#pragma once
#include "ledger/ledger.h"

// From here on the calling thread may touch the mapping of `ledger` if its file is truncated: empty memory takes its
// place. The process's handler of SIGBUS is replaced meanwhile, and called for all other faults.
void vg_ledger_guard(const struct vg_ledger *ledger);
// Ends that. Returns whether the file was truncated: nothing that was read or written since is worth anything then.
bool vg_ledger_unguard(void);
