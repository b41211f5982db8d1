// Implements the strategies, which choose the virtual GPU for new work.
#include "manager/balancer.h"

// Returns whether `a` comes after `b` in the order of round robin: by manager, then by id.
static bool comes_after(struct balancer_key a, struct balancer_key b)
{
	return a.manager != b.manager ? a.manager > b.manager : a.id > b.id;
}

static bool is_better_next(const struct balancer_memory *memory, struct balancer_key key, struct balancer_key best)
{
	bool after = comes_after(key, memory->last), best_after = comes_after(best, memory->last);

	return after != best_after ? after : comes_after(best, key);
}

static bool is_less_loaded(const struct balancer_memory *memory, const struct balancer_load *load,
			   const struct balancer_load *best)
{
	// Counts the new work too. Otherwise an idle virtual GPU with a small share would look like one with a large
	// share.
	double after = balancer_drain(load) + 1 / (load->share > 0.001 ? load->share : 0.001);
	double best_after = balancer_drain(best) + 1 / (best->share > 0.001 ? best->share : 0.001);

	if (after != best_after)
		return after < best_after;
	// Utilization was measured in a past interval, so a small difference says nothing about the present.
	double less = best->utilization - load->utilization;
	if (load->utilization_known && best->utilization_known && (less > 0.1 || less < -0.1))
		return less > 0;
	// Choose equally loaded virtual GPUs one after the other. Otherwise the first of them would get all short work.
	return is_better_next(memory, load->key, best->key);
}

// Subtracts the sum of all shares from the credit of the chosen virtual GPU. Each time, every virtual GPU also earns
// its own share as credit. So over time each one is chosen in proportion to its share, at even intervals.
static void pay_credit(struct balancer_memory *memory, const struct balancer_load *loads, size_t count, long chosen)
{
	double all = 0;

	for (size_t i = 0; i < count; i++)
		if (loads[i].takes_work)
			all += loads[i].share;
	balancer_mark(memory, loads[chosen].key)->credit -= all;
}

static double earn_credit(struct balancer_memory *memory, const struct balancer_load *load)
{
	return balancer_mark(memory, load->key)->credit += load->share;
}

long balancer_choose(enum vg_balancing strategy, const struct balancer_load *loads, size_t count,
		     struct balancer_memory *memory)
{
	double most = 0;
	long best = -1;

	for (size_t i = 0; i < count; i++) {
		double credit = 0;
		bool better = best < 0;
		if (!loads[i].takes_work)
			continue;
		switch (strategy) {
		case VG_BALANCE_ROUND_ROBIN:
			better = better || is_better_next(memory, loads[i].key, loads[best].key);
			break;
		case VG_BALANCE_WEIGHTED:
			credit = earn_credit(memory, &loads[i]);
			better = better || credit > most + 1e-9;
			break;
		default:
			better = better || is_less_loaded(memory, &loads[i], &loads[best]);
			break;
		}
		if (!better)
			continue;
		best = (long)i;
		most = credit;
	}
	if (best >= 0 && strategy == VG_BALANCE_WEIGHTED)
		pay_credit(memory, loads, count, best);
	if (best >= 0)
		memory->last = loads[best].key;
	return best;
}
