// What a virtual GPU may hold, and holds: pages are charged before they are made and refunded when they have gone. Any
// thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/mutex.h"
#include "base/status.h"
#include "ledger/ledger.h"

struct manager_budget {
	struct vg_mutex lock;
	uint64_t limit, held; // of this process; of a shared one the ledger has the limit
	uint64_t refusals;
	struct vg_ledger *ledger; // NULL: it is known to this process alone
	enum vg_ledger_kind kind; // that it charges there
	const char *name;	  // of the vGPU, for messages
	int id;
};

// INSUFFICIENT, with need and have; SYSTEM: the ledger cannot be used.
enum vg_status budget_charge(struct manager_budget *budget, uint64_t bytes);
// An allocation came to nothing for lack of memory, as the last error says: it is counted, told to the ledger, and gets
// the name of the vGPU. INSUFFICIENT.
enum vg_status budget_refused(struct manager_budget *budget);
void budget_refund(struct manager_budget *budget, uint64_t bytes);
// BUSY: more is held. Not for a shared one.
enum vg_status budget_set_limit(struct manager_budget *budget, uint64_t limit);

struct budget_figures {
	uint64_t limit, charged, refusals;
};
// Of a shared one: of all programs inside.
struct budget_figures budget_read(struct manager_budget *budget);
