// Declares the private state of a process for one ledger: the number of its slot, and a lock between its threads. The
// lock is held for one operation, and never during a driver call. Only files of src/ledger include this header.
#pragma once
#include "base/lock.h"
#include "ledger/ledger.h"

// The kernel clears the page of this structure in a forked child. So in the child the lock is unlocked, even if a
// thread of the parent held it, and the child has no slot.
struct ledger_process {
	struct vg_lock lock;
	uint32_t slot_number; // slot + 1; 0: the process has no slot
	uint32_t restores;    // how many times the process was restored
	// How far the process's monotonic clock is ahead of the kernel's, as vg_clock_offset() returned it.
	int64_t clock_ahead;
};

int ledger_process_create(struct ledger_process **ret_process);
void ledger_process_destroy(struct ledger_process *process);
