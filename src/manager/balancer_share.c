// Adapts shares to the load. Idle virtual GPUs lend share to those with waiting work. Compute units that no virtual GPU
// has are added to those with waiting work. When the load ends, lent shares are returned and added units are removed.
#include "manager/balancer.h"

static const double least_loan = 0.01;

static const struct balancer_mark *find_mark(const struct balancer_plan *plan, size_t i)
{
	return balancer_mark(plan->memory, plan->loads[i].key);
}

static bool is_pressed(const struct balancer_plan *plan, size_t i)
{
	return plan->loads[i].takes_work && find_mark(plan, i)->pressed >= BALANCER_PATIENCE;
}

static size_t find_index(const struct balancer_plan *plan, struct balancer_key key)
{
	size_t i = 0;

	while (i < plan->count && !balancer_same(plan->loads[i].key, key))
		i++;
	return i;
}

// ---- compute units ----------------------------------------------------------------------------------------

static double sum_unclaimed(const struct balancer_plan *plan, unsigned manager)
{
	double left = 1;

	for (size_t i = 0; i < plan->count; i++)
		if (plan->loads[i].key.manager == manager)
			left -= plan->loads[i].share;
	return left > 0 ? left : 0;
}

static void scale_units(struct balancer_plan *plan, size_t i, int units, const char *why)
{
	struct balancer_load *load = &plan->loads[i];
	struct balancer_decision *decision =
		balancer_plan_add(plan, VG_ACTION_SCALE_UNITS, i, i,
				  "%s has %zu waiting and %zu running with %u of %u units, of which %.2f of "
				  "the device is nobody's: %s, %+d",
				  load->name, load->waiting + load->unbound, load->running, load->units,
				  load->max_units, sum_unclaimed(plan, load->key.manager), why, units);

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
		if (find_mark(plan, i)->scaled > 0 && find_mark(plan, i)->calm >= BALANCER_CALM)
			scale_units(plan, i, -find_mark(plan, i)->scaled, "its work is done");
	for (size_t i = 0; i < plan->count; i++) {
		const struct balancer_load *load = &plan->loads[i];
		if (!load->max_units || !load->units || !is_pressed(plan, i))
			continue;
		int own = (int)load->units - find_mark(plan, i)->scaled;
		int free = (int)(sum_unclaimed(plan, load->key.manager) * load->max_units + 1e-6);
		// The balancer adds at most as many units as the virtual GPU has of its own.
		int more = own - find_mark(plan, i)->scaled;
		more = more < free ? more : free;
		if (more > 0)
			scale_units(plan, i, more, "its work waits");
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
		size_t lender = find_index(plan, loan->from), borrower = find_index(plan, loan->to);
		if (needs_its_own(plan, lender))
			add_loan(plan, borrower, lender, loan->share, true, "the lender needs it");
		else if (find_mark(plan, borrower)->calm >= BALANCER_CALM)
			add_loan(plan, borrower, lender, loan->share, true, "the load is over");
	}
}

// Returns the share that a virtual GPU may still lend: half of its unused share, but at most half of its own share.
static double compute_spare(const struct balancer_plan *plan, size_t i)
{
	const struct balancer_load *load = &plan->loads[i];
	const struct balancer_mark *mark = find_mark(plan, i);
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

static void plan_loan(struct balancer_plan *plan, size_t borrower)
{
	const struct balancer_load *load = &plan->loads[borrower];
	// A borrower gets at most twice its own share.
	double most = 0, room = 2 * find_mark(plan, borrower)->share - load->share;
	size_t lender = 0;

	for (size_t i = 0; i < plan->count; i++) {
		if (i == borrower || plan->loads[i].key.manager != load->key.manager || has_returned(plan, i))
			continue;
		double share = compute_spare(plan, i);
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
			plan_loan(plan, i);
}
