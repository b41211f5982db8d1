#include "manager/budget.h"

#include "base/size.h"
#include "ledger/ledger.h"

#include <stdio.h>
#include <string.h>

static enum vg_status fail_over_limit(uint64_t bytes, uint64_t charged, uint64_t limit)
{
	char asked[VG_SIZE_TEXT], charged_text[VG_SIZE_TEXT], most[VG_SIZE_TEXT];

	vg_fail(VG_INSUFFICIENT, 0, "asked for %s more, and %s of its %s are charged: free some, or raise its limit",
		vg_size_format(bytes, asked), vg_size_format(charged, charged_text), vg_size_format(limit, most));
	vg_fail_amounts(bytes, limit > charged ? limit - charged : 0);
	return VG_INSUFFICIENT;
}

static enum vg_status charge_ledger(struct manager_budget *budget, uint64_t bytes)
{
	uint64_t limit, charged;

	int r = vg_ledger_reserve(budget->ledger, budget->kind, bytes);
	if (r == 0)
		return VG_OK;
	if (r != VG_LEDGER_REFUSED)
		return vg_fail(VG_SYSTEM, r < 0 ? -r : 0,
			       "virtual GPU %d (%s): its ledger has no slot for this process: %s", budget->id,
			       budget->name, r < 0 ? strerror(-r) : "too many programs are inside");
	vg_ledger_read(budget->ledger, &limit, &charged);
	return fail_over_limit(bytes, charged, limit);
}

enum vg_status budget_charge(struct manager_budget *budget, uint64_t bytes)
{
	enum vg_status status = budget->ledger ? charge_ledger(budget, bytes) : VG_OK;

	if (status)
		return status;
	vg_mutex_lock(&budget->lock);
	uint64_t charged = budget->charged, limit = budget->limit;
	bool fits = budget->ledger || (charged <= limit && bytes <= limit - charged);
	if (fits)
		budget->charged += bytes;
	vg_mutex_unlock(&budget->lock);
	return fits ? VG_OK : fail_over_limit(bytes, charged, limit);
}

enum vg_status budget_refused(struct manager_budget *budget)
{
	struct vg_ledger_refusal refusal = {.asked = vg_last_error()->need};
	struct vg_kept_error kept;

	if (budget->ledger) {
		vg_ledger_read(budget->ledger, &refusal.limit, &refusal.charged);
		refusal.overhead = vg_ledger_overhead(budget->ledger);
		snprintf(refusal.entry, sizeof refusal.entry, "%s", vg_entry ? vg_entry : "");
		vg_ledger_refusal(budget->ledger, &refusal);
	}
	vg_mutex_lock(&budget->lock);
	budget->refusals++;
	vg_mutex_unlock(&budget->lock);
	vg_error_keep(&kept);
	vg_fail(VG_INSUFFICIENT, kept.error.code, "virtual GPU %d (%s): %s", budget->id, budget->name, kept.text);
	vg_fail_amounts(kept.error.need, kept.error.have);
	return VG_INSUFFICIENT;
}

void budget_refund(struct manager_budget *budget, uint64_t bytes)
{
	if (budget->ledger)
		vg_ledger_refund(budget->ledger, budget->kind, bytes);
	vg_mutex_lock(&budget->lock);
	budget->charged -= bytes;
	vg_mutex_unlock(&budget->lock);
}

enum vg_status budget_set_limit(struct manager_budget *budget, uint64_t limit)
{
	char asked[VG_SIZE_TEXT], charged[VG_SIZE_TEXT];

	vg_mutex_lock(&budget->lock);
	uint64_t now = budget->charged;
	if (now <= limit)
		budget->limit = limit;
	vg_mutex_unlock(&budget->lock);
	if (now <= limit)
		return VG_OK;
	return vg_fail(VG_BUSY, 0, "virtual GPU %d (%s): asked for a limit of %s, and %s are charged: free some first",
		       budget->id, budget->name, vg_size_format(limit, asked), vg_size_format(now, charged));
}

struct budget_figures budget_read(struct manager_budget *budget)
{
	struct budget_figures now;

	vg_mutex_lock(&budget->lock);
	now = (struct budget_figures){budget->limit, budget->charged, budget->refusals};
	vg_mutex_unlock(&budget->lock);
	if (budget->ledger) {
		vg_ledger_read(budget->ledger, &now.limit, &now.charged);
		now.refusals = vg_ledger_refusal_count(budget->ledger);
	}
	return now;
}
