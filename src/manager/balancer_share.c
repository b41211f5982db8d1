// Shares that follow the load: lent by who does not use them to who has work that waits, units added from what nobody
// has claimed; and given back when that is over.
#include "manager/balancer.h"

static const double least_loan = 0.01;

static const struct balancer_mark *mark_of(const struct balancer_plan *plan, size_t i)
{
	return balancer_mark(plan->memory, plan->loads[i].key);
}

static bool is_pressed(const struct balancer_plan *plan, size_t i)
{
	return plan->loads[i].takes_work && mark_of(plan, i)->pressed >= BALANCER_PATIENCE;
}

static size_t index_of(const struct balancer_plan *plan, struct balancer_key key)
{
	size_t i = 0;

	while (i < plan->count && !balancer_same(plan->loads[i].key, key))
		i++;
	return i;
}

// ---- units ------------------------------------------------------------------------------------------------

static double unclaimed(const struct balancer_plan *plan, unsigned manager)
{
	double left = 1;

	for (size_t i = 0; i < plan->count; i++)
		if (plan->loads[i].key.manager == manager)
			left -= plan->loads[i].share;
	return left > 0 ? left : 0;
}

static void scale(struct balancer_plan *plan, size_t i, int units, const char *why)
{
	struct balancer_load *load = &plan->loads[i];
	struct balancer_decision *decision =
		balancer_plan_add(plan, VG_ACTION_SCALE_UNITS, i, i,
				  "%s has %zu waiting and %zu running with %u of %u units, of which %.2f of "
				  "the device is nobody's: %s, %+d",
				  load->name, load->waiting + load->unbound, load->running, load->units,
				  load->max_units, unclaimed(plan, load->key.manager), why, units);

	if (!decision)
		return;
	decision->units = units;
	decision->returns = units < 0;
	load->units = (unsigned)((int)load->units + units);
	load->share += (double)units / load->max_units;
}

void balancer_plan_units(struct balancer_plan *plan)
{
	if (!balancer_allows(plan, VG_ACTION_SCALE_UNITS))
		return;
	for (size_t i = 0; i < plan->count; i++)
		if (mark_of(plan, i)->scaled > 0 && mark_of(plan, i)->calm >= BALANCER_CALM)
			scale(plan, i, -mark_of(plan, i)->scaled, "its work is done");
	for (size_t i = 0; i < plan->count; i++) {
		const struct balancer_load *load = &plan->loads[i];
		if (!load->max_units || !load->units || !is_pressed(plan, i))
			continue;
		int own = (int)load->units - mark_of(plan, i)->scaled;
		int free = (int)(unclaimed(plan, load->key.manager) * load->max_units + 1e-6);
		int more = own - mark_of(plan, i)->scaled; // twice its own at most
		more = more < free ? more : free;
		if (more > 0)
			scale(plan, i, more, "its work waits");
	}
}

// ---- loans ------------------------------------------------------------------------------------------------

static bool needs_its_own(const struct balancer_plan *plan, size_t i)
{
	const struct balancer_load *lender = &plan->loads[i];

	return is_pressed(plan, i) ||
	       (lender->utilization_known && lender->utilization >= 1 - plan->rules->threshold / 2);
}

static void add_loan(struct balancer_plan *plan, size_t from, size_t to, double share, bool returns, const char *why)
{
	struct balancer_load *a = &plan->loads[from], *b = &plan->loads[to];
	struct balancer_decision *decision = balancer_plan_add(
		plan, VG_ACTION_ADJUST_SHARE, from, to,
		"%s: %s has %zu waiting with a share of %.3f, %s has %zu with %.3f "
		"and uses %s%.2f of it: %.3f goes from one to the other",
		why, returns ? a->name : b->name, returns ? a->waiting + a->unbound : b->waiting + b->unbound,
		returns ? a->share : b->share, returns ? b->name : a->name,
		returns ? b->waiting + b->unbound : a->waiting + a->unbound, returns ? b->share : a->share,
		(returns ? b : a)->utilization_known ? "" : "an unknown part, ", (returns ? b : a)->utilization, share);

	if (!decision)
		return;
	decision->share = share;
	decision->returns = returns;
	decision->needed = returns && needs_its_own(plan, to);
	a->share -= share;
	b->share += share;
}

static void plan_returns(struct balancer_plan *plan)
{
	const struct balancer_memory *memory = plan->memory;

	for (size_t i = 0; i < memory->loan_count; i++) {
		const struct balancer_loan *loan = &memory->loans[i];
		size_t lender = index_of(plan, loan->from), borrower = index_of(plan, loan->to);
		if (needs_its_own(plan, lender))
			add_loan(plan, borrower, lender, loan->share, true, "the lender needs it");
		else if (mark_of(plan, borrower)->calm >= BALANCER_CALM)
			add_loan(plan, borrower, lender, loan->share, true, "the load is over");
	}
}

// What a virtual GPU may still lend: half of what it does not use, and never more than half of its own.
static double spare(const struct balancer_plan *plan, size_t i)
{
	const struct balancer_load *load = &plan->loads[i];
	const struct balancer_mark *mark = mark_of(plan, i);
	double idle, left = load->share - mark->share / 2;

	if (!load->utilization_known || load->waiting + load->unbound ||
	    load->utilization >= 1 - plan->rules->threshold || balancer_still(plan->memory, mark->took, mark->needed))
		return 0;
	idle = load->share * (1 - load->utilization) / 2;
	return idle < left ? idle : left;
}

static bool has_returned(const struct balancer_plan *plan, size_t i)
{
	for (size_t d = 0; d < plan->decided; d++)
		if (plan->decisions[d].returns && (plan->decisions[d].from == i || plan->decisions[d].to == i))
			return true;
	return false;
}

static void borrow(struct balancer_plan *plan, size_t borrower)
{
	const struct balancer_load *load = &plan->loads[borrower];
	double most = 0, room = 2 * mark_of(plan, borrower)->share - load->share; // twice its own at most
	size_t lender = 0;

	for (size_t i = 0; i < plan->count; i++) {
		if (i == borrower || plan->loads[i].key.manager != load->key.manager || has_returned(plan, i))
			continue;
		double share = spare(plan, i);
		if (share <= most)
			continue;
		most = share;
		lender = i;
	}
	if (most > room)
		most = room;
	if (most >= least_loan)
		add_loan(plan, lender, borrower, most, false, "work waits where a share is too small");
}

void balancer_plan_shares(struct balancer_plan *plan)
{
	if (!balancer_allows(plan, VG_ACTION_ADJUST_SHARE))
		return;
	plan_returns(plan);
	for (size_t i = 0; i < plan->count; i++)
		if (is_pressed(plan, i) && plan->loads[i].waiting + plan->loads[i].unbound && !has_returned(plan, i))
			borrow(plan, i);
}
