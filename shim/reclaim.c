#include "shim/reclaim.h"

#include <stdint.h>

#include "shim/relaxed.h"
#include "shim/session.h"

_Atomic bool shim_needs_reconcile;

static const struct shim_reclaimer *reclaimers;
static size_t reclaimer_count;

void shim_reclaim_set(const struct shim_reclaimer *list, size_t count)
{
	reclaimers = list;
	reclaimer_count = count;
}

void shim_reconcile(void)
{
	SHIM_RELAXED;

	shim_needs_reconcile = false;
	for (size_t i = 0; i < reclaimer_count; i++)
		reclaimers[i].reconcile();
}

static void trim_all(void)
{
	for (size_t i = 0; i < reclaimer_count; i++)
		if (reclaimers[i].trim)
			reclaimers[i].trim();
}

bool shim_reclaim(void)
{
	SHIM_RELAXED;
	struct vg_ledger *ledger = shim_session_ledger();
	uint64_t before;

	if (!ledger)
		return false;
	before = vg_ledger_used_here(ledger);
	shim_reconcile();
	trim_all();
	shim_reconcile();
	return vg_ledger_used_here(ledger) < before;
}
