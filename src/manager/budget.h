// Counts the memory charged to a virtual GPU against its limit. Pages are charged before they are created, and refunded
// after they are destroyed. Any thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/mutex.h"
#include "base/status.h"
#include "ledger/ledger.h"

struct manager_budget {
	struct vg_mutex lock;
	// `charged`: bytes charged by this process. `limit`: unused if there is a `ledger`, which has a limit.
	uint64_t limit, charged;
	uint64_t refusals;
	struct vg_ledger *ledger; // NULL: only this process uses the vGPU
	enum vg_ledger_kind kind; // the kind of memory to charge in the ledger
	const char *name;	  // name of the vGPU, for messages
	int id;
};

// Charge and refund bytes. Fails with INSUFFICIENT if the limit would be exceeded: the error has the needed and the
// available bytes. Fails with SYSTEM if the ledger cannot be used.
enum vg_status budget_charge(struct manager_budget *budget, uint64_t bytes);
// Counts a refused allocation, reports it to the ledger, and adds the vGPU's name to the last error. Returns
// INSUFFICIENT.
enum vg_status budget_refused(struct manager_budget *budget);
void budget_refund(struct manager_budget *budget, uint64_t bytes);
// Sets the limit. Fails with BUSY if more than that is charged. Not for a shared vGPU.
enum vg_status budget_set_limit(struct manager_budget *budget, uint64_t limit);

struct budget_figures {
	uint64_t limit, charged, refusals;
};
// Reads the figures. For a shared vGPU they cover all programs inside.
struct budget_figures budget_read(struct manager_budget *budget);
