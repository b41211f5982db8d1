#include "manager/budget.h"

#include "base/size.h"
#include "ledger/ledger.h"

#include <stdio.h>
#include <string.h>

static enum vg_status refuse(const struct manager_budget *budget, uint64_t bytes, const struct budget_figures *now,
			     const char *function)
{
	char asked[VG_SIZE_TEXT], charged[VG_SIZE_TEXT], limit[VG_SIZE_TEXT];

	vg_fail(VG_INSUFFICIENT, 0, function,
		"virtual GPU %d (%s): asked for %s more, and %s of its %s are held: free some, or give it a higher "
		"limit",
		budget->id, budget->name, vg_size_format(bytes, asked), vg_size_format(now->charged, charged),
		vg_size_format(now->limit, limit));
	vg_fail_amounts(bytes, now->limit > now->charged ? now->limit - now->charged : 0);
	return VG_INSUFFICIENT;
}

// The ledger is the programs' inside as well: a refusal stands there for `virgate logs`.
static enum vg_status charge_ledger(struct manager_budget *budget, uint64_t bytes, const char *function)
{
	struct vg_ledger_refusal refusal = {.asked = bytes, .overhead = vg_ledger_overhead(budget->ledger)};

	int r = vg_ledger_reserve(budget->ledger, VG_LEDGER_VMM, bytes);
	if (r == 0)
		return VG_OK;
	if (r != VG_LEDGER_REFUSED)
		return vg_fail(VG_SYSTEM, r < 0 ? -r : 0, function,
			       "virtual GPU %d (%s): its ledger has no place for this process: %s", budget->id,
			       budget->name, r < 0 ? strerror(-r) : "too many programs are inside");
	vg_ledger_read(budget->ledger, &refusal.limit, &refusal.charged);
	snprintf(refusal.entry, sizeof refusal.entry, "%s", function);
	vg_ledger_refusal(budget->ledger, &refusal);
	return refuse(budget, bytes, &(struct budget_figures){refusal.limit, refusal.charged, 0}, function);
}

enum vg_status budget_charge(struct manager_budget *budget, uint64_t bytes, const char *function)
{
	struct budget_figures now;
	bool fits = true;

	if (budget->ledger) {
		enum vg_status status = charge_ledger(budget, bytes, function);
		if (status)
			return status;
	}
	vg_mutex_take(&budget->lock);
	if (!budget->ledger)
		fits = budget->held <= budget->limit && bytes <= budget->limit - budget->held;
	if (fits)
		budget->held += bytes;
	else
		budget->refusals++;
	now = (struct budget_figures){budget->limit, budget->held, 0};
	vg_mutex_give(&budget->lock);
	return fits ? VG_OK : refuse(budget, bytes, &now, function);
}

void budget_refund(struct manager_budget *budget, uint64_t bytes)
{
	if (budget->ledger)
		vg_ledger_refund(budget->ledger, VG_LEDGER_VMM, bytes);
	vg_mutex_take(&budget->lock);
	budget->held -= bytes;
	vg_mutex_give(&budget->lock);
}

enum vg_status budget_set_limit(struct manager_budget *budget, uint64_t limit, const char *function)
{
	char asked[VG_SIZE_TEXT], held[VG_SIZE_TEXT];

	vg_mutex_take(&budget->lock);
	uint64_t now = budget->held;
	if (now <= limit)
		budget->limit = limit;
	vg_mutex_give(&budget->lock);
	if (now <= limit)
		return VG_OK;
	return vg_fail(VG_BUSY, 0, function,
		       "virtual GPU %d (%s): asked for a limit of %s, and %s are held: free some first", budget->id,
		       budget->name, vg_size_format(limit, asked), vg_size_format(now, held));
}

struct budget_figures budget_read(struct manager_budget *budget)
{
	struct budget_figures now;

	vg_mutex_take(&budget->lock);
	now = (struct budget_figures){budget->limit, budget->held, budget->refusals};
	vg_mutex_give(&budget->lock);
	if (budget->ledger) {
		vg_ledger_read(budget->ledger, &now.limit, &now.charged);
		now.refusals = vg_ledger_refusal_count(budget->ledger);
	}
	return now;
}
