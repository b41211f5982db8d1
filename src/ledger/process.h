// The private state of a process for one ledger: the number of its slot, and a lock between its threads, which is held
// for one operation and never during a driver call. This room only.
#pragma once
#include "base/lock.h"
#include "ledger/ledger.h"

// In a page that the kernel clears in a forked child. So in the child the lock is free, even if a thread of the parent
// held it, and no slot is claimed.
struct ledger_process {
	struct vg_lock lock;
	uint32_t slot_number; // slot + 1; 0: none
	uint32_t restores;    // how many times the process was restored
	int64_t clock_ahead;  // vg_clock_offset() of the process, "monotonic"
};

int ledger_process_create(struct ledger_process **ret_process);
void ledger_process_destroy(struct ledger_process *process);
