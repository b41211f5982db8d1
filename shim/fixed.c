#include "shim/fixed.h"

#include <stdatomic.h>
#include <string.h>

#include "pager/page.h"
#include "pager/pager.h"
#include "shim/entries.h"
#include "shim/log.h"
#include "shim/session.h"

bool shim_evictable;

void shim_fixed_note_evictable(int64_t bytes)
{
	if (shim_evictable)
		pager_note_charge(bytes);
}

// Returns how much memory that cannot move is charged to all processes of the vGPU.
static uint64_t sum_fixed(const struct vg_ledger *ledger)
{
	const struct pager_slot *slots = vg_ledger_pager_slots(ledger);
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;
	uint64_t sum = 0;

	while (vg_ledger_next_tenant(ledger, &cursor, &tenant)) {
		uint64_t charged = atomic_load(&slots[tenant.slot].charged);
		uint64_t used = tenant.used - tenant.by_kind[VG_LEDGER_MANAGED];
		sum += used > charged ? used - charged : 0;
	}
	return sum;
}

bool shim_fixed_exceeds(uint64_t bytes)
{
	const struct vg_ledger *ledger = shim_evictable ? shim_session_ledger() : NULL;
	uint64_t fixed = ledger ? vg_ledger_fixed(ledger) : 0;

	return fixed && sum_fixed(ledger) + bytes > fixed;
}

void shim_fixed_refuse(enum vg_entry entry, uint64_t bytes)
{
	struct vg_ledger *ledger = shim_session_ledger();
	struct vg_ledger_refusal refusal = {.asked = bytes};

	if (!ledger)
		return;
	refusal.charged = sum_fixed(ledger);
	refusal.limit = vg_ledger_fixed(ledger);
	strncpy(refusal.entry, shim_entry(entry)->abi, sizeof refusal.entry - 1);
	vg_ledger_refusal(ledger, &refusal);
	shim_log(SHIM_ERROR,
		 "vGPU %s: %s asked for %llu MiB that cannot move to the host, and %llu of %llu MiB (--fixed) are "
		 "used: allocate with cudaMalloc, not from pools, or create the vGPU with more --fixed",
		 vg_ledger_name(ledger), refusal.entry, (unsigned long long)(bytes + 0xfffff) >> 20,
		 (unsigned long long)refusal.charged >> 20, (unsigned long long)refusal.limit >> 20);
}
