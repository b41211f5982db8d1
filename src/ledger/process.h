// What a process keeps of a ledger for itself: its slot, and a lock over its threads that is
// held for one operation and never across a driver call. This room only.
#pragma once
#include "base/lock.h"
#include "ledger/ledger.h"

// On a page that the kernel clears in a forked child: there the lock is free, whoever held it
// in the parent, and no slot is claimed.
struct ledger_process {
	struct vg_lock lock;
	uint32_t slot_number; // slot + 1; 0: none
	uint32_t restores;    // how often the process was restored: it has a new slot then
	int64_t clock_ahead;  // vg_clock_offset() of the process, "monotonic"
};

int ledger_process_create(struct ledger_process **ret_process);
void ledger_process_destroy(struct ledger_process *process);
