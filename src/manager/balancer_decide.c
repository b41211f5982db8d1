// Decides what to do about a snapshot of the loads (struct balancer_load of each virtual GPU), from the rules and the
// memory of earlier rounds.
#include "manager/balancer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct balancer_decision *balancer_plan_add(struct balancer_plan *plan, enum vg_balancing_action action, size_t from,
					    size_t to, const char *why, ...)
{
	va_list arguments;

	if (plan->decided == plan->capacity)
		return NULL;
	struct balancer_decision *decision = &plan->decisions[plan->decided++];
	*decision = (struct balancer_decision){.action = action, .from = from, .to = to};
	va_start(arguments, why);
	vsnprintf(decision->why, sizeof decision->why, why, arguments);
	va_end(arguments);
	return decision;
}

// ---- migration of queued work ----------------------------------------------------------------------------

static size_t count_movable(const struct balancer_load *from, const struct balancer_load *to)
{
	// Bound work stays on its device, because its arguments contain addresses there.
	return from->unbound + (from->key.manager == to->key.manager && from->takes_work ? from->waiting : 0);
}

// Returns how many executions must move so that new work waits equally long on both virtual GPUs. Rounds down, so that
// no work moves back in the next round.
static size_t count_to_move(const struct balancer_load *from, const struct balancer_load *to)
{
	double both = from->share + to->share;

	if (!from->takes_work)
		return from->unbound; // move all work: on this virtual GPU it would wait forever
	double even =
		both > 0 ? (balancer_executions(from) * to->share - balancer_executions(to) * from->share) / both : 0;
	size_t most = count_movable(from, to), wanted = even > 0 ? (size_t)(even + 1e-9) : 0;

	return wanted < most ? wanted : most;
}

// Returns how long new work would wait on the virtual GPU, in units of balancer_drain(). If the virtual GPU takes no
// work, adds a very large value.
static double estimate_wait(const struct balancer_load *load)
{
	return balancer_drain(load) + (load->takes_work ? 0 : 1e9);
}

static double compare_waits(const struct balancer_load *from, const struct balancer_load *to)
{
	double most = estimate_wait(from);

	return most > 0 ? (most - estimate_wait(to)) / most : 0;
}

static bool may_give(const struct balancer_plan *plan, const struct balancer_load *load)
{
	if (!load->takes_work)
		return load->unbound > 0;
	return !load->took && !balancer_still(plan->memory, balancer_mark(plan->memory, load->key)->took, 0);
}

static bool may_take(const struct balancer_plan *plan, const struct balancer_load *load)
{
	return load->takes_work && !load->gave &&
	       !balancer_still(plan->memory, balancer_mark(plan->memory, load->key)->gave, 0);
}

// Finds the pair of virtual GPUs with the largest gain. Returns false if no pair differs by more than the threshold.
static bool find_pair(const struct balancer_plan *plan, size_t *ret_from, size_t *ret_to)
{
	double most = 0;

	for (size_t from = 0; from < plan->count; from++) {
		const struct balancer_load *a = &plan->loads[from];
		for (size_t to = 0; may_give(plan, a) && to < plan->count; to++) {
			const struct balancer_load *b = &plan->loads[to];
			double gain = estimate_wait(a) - estimate_wait(b);
			if (to == from || gain <= most || !may_take(plan, b) || !count_to_move(a, b) ||
			    compare_waits(a, b) <= plan->rules->threshold)
				continue;
			most = gain;
			*ret_from = from;
			*ret_to = to;
		}
	}
	return most > 0;
}

static void move_load(struct balancer_load *from, struct balancer_load *to, size_t count)
{
	size_t unbound = count < from->unbound ? count : from->unbound;

	from->unbound -= unbound;
	to->unbound += unbound;
	from->waiting -= count - unbound;
	to->waiting += count - unbound;
	from->gave = to->took = true;
}

static struct balancer_decision *add_migration(struct balancer_plan *plan, size_t from, size_t to, size_t count)
{
	const struct balancer_load *a = &plan->loads[from], *b = &plan->loads[to];

	if (!a->takes_work)
		return balancer_plan_add(
			plan, VG_ACTION_MIGRATE, from, to,
			"%s is %s: the %zu executions that wait for it, bound nowhere, go to %s with %zu "
			"waiting and %zu running",
			a->name, vg_virtual_gpu_status_text(a->status), count, b->name, b->waiting + b->unbound,
			b->running);
	return balancer_plan_add(
		plan, VG_ACTION_MIGRATE, from, to,
		"%s has %zu waiting and %zu running for a share of %.2f, %s %zu and %zu for %.2f: %.2f "
		"apart, more than %.2f; %zu that wait move",
		a->name, a->waiting + a->unbound, a->running, a->share, b->name, b->waiting + b->unbound, b->running,
		b->share, compare_waits(a, b), plan->rules->threshold, count);
}

void balancer_plan_migrations(struct balancer_plan *plan)
{
	size_t from, to;

	// Move work between a pair of virtual GPUs only once in a round: the next round can move more, as the load is
	// known then.
	for (size_t i = 0; i < plan->count && balancer_allows(plan, VG_ACTION_MIGRATE); i++) {
		if (!find_pair(plan, &from, &to))
			return;
		struct balancer_load *a = &plan->loads[from], *b = &plan->loads[to];
		size_t count = count_to_move(a, b);
		struct balancer_decision *decision = add_migration(plan, from, to, count);
		if (!decision)
			return;
		decision->executions = count;
		move_load(a, b, count);
	}
}

// ---- preemption -------------------------------------------------------------------------------------------

// For each manager, preempts the running virtual GPU with the lowest priority if one with a higher priority waits.
void balancer_plan_preemption(struct balancer_plan *plan)
{
	const struct balancer_load *loads = plan->loads;

	if (!balancer_allows(plan, VG_ACTION_PREEMPT))
		return;
	for (size_t first = 0, end; first < plan->count; first = end) {
		long waits = -1, runs = -1;
		for (end = first; end < plan->count && loads[end].key.manager == loads[first].key.manager; end++) {
			const struct balancer_load *load = &loads[end];
			const struct balancer_mark *mark = balancer_mark(plan->memory, load->key);
			if (load->takes_work && load->waiting && !load->running && mark->pressed >= BALANCER_PATIENCE &&
			    (waits < 0 || load->priority > loads[waits].priority))
				waits = (long)end;
			if (load->running && (runs < 0 || load->priority < loads[runs].priority))
				runs = (long)end;
		}
		if (waits < 0 || runs < 0 || loads[waits].priority <= loads[runs].priority)
			continue;
		struct balancer_decision *decision =
			balancer_plan_add(plan, VG_ACTION_PREEMPT, (size_t)runs, (size_t)waits,
					  "%s has %zu waiting with priority %d and nothing running, while %s runs %zu "
					  "with priority %d: its "
					  "quantum ends",
					  loads[waits].name, loads[waits].waiting, loads[waits].priority,
					  loads[runs].name, loads[runs].running, loads[runs].priority);
		if (decision)
			decision->executions = 1;
	}
}

size_t balancer_decide(const struct balancer_rules *rules, const struct balancer_load *loads, size_t count,
		       const struct balancer_memory *memory, struct balancer_decision *decisions, size_t capacity)
{
	struct balancer_plan plan = {
		.rules = rules, .count = count, .memory = memory, .decisions = decisions, .capacity = capacity};

	if (!count)
		return 0;
	plan.loads = calloc(count, sizeof *plan.loads);
	if (!plan.loads) // out of memory: decide nothing, the next round tries again
		return 0;
	memcpy(plan.loads, loads, count * sizeof *loads);
	// The cheapest actions come first: if moving work is enough, no share changes.
	balancer_plan_migrations(&plan);
	balancer_plan_units(&plan);
	balancer_plan_shares(&plan);
	balancer_plan_preemption(&plan);
	free(plan.loads);
	return plan.decided;
}
