// Chooses the next compute unit to run, by the measured GPU time of each unit. Work in flight counts with its estimate
// until it is measured. Otherwise one unit could get two quanta in a row by mistake.
#include "compute/quantum.h"
#include "compute/turn.h"

bool compute_runs_in(const struct vg_compute_unit *unit, const struct compute_lane *lane)
{
	const struct vg_compute *compute = unit->compute;

	if (compute->direct)
		// `home` is NULL, and the unit runs nowhere, until the scheduler's thread has created its lane.
		return lane == unit->home;
	return lane == (unit->home && compute->grouped ? unit->home : compute->lanes);
}

static bool has_work(struct vg_compute_unit *unit, const struct compute_lane *lane)
{
	return unit->ready && compute_runs_in(unit, lane) && compute_queue_peek(unit, lane);
}

static bool is_waiting(struct vg_compute_unit *unit, const struct compute_lane *lane)
{
	return has_work(unit, lane) && compute_turn_admits(unit);
}

bool compute_policy_contended(struct vg_compute *compute, const struct compute_lane *lane,
			      const struct vg_compute_unit *unit)
{
	for (struct vg_compute_unit *other = compute->units; other; other = other->next)
		if (other != unit && is_waiting(other, lane))
			return true;
	return false;
}

static double get_virtual_time(const struct vg_compute_unit *unit, const struct compute_lane *lane)
{
	return unit->virtual_time + (double)unit->in_flight_ns / 1e9 * lane->sms / unit->share;
}

double compute_policy_start(const struct vg_compute *compute)
{
	double least = -1;

	for (const struct vg_compute_unit *unit = compute->units; unit; unit = unit->next)
		if (!unit->idle_since && (least < 0 || get_virtual_time(unit, compute->lanes) < least))
			least = get_virtual_time(unit, compute->lanes);
	return least > compute->floor ? least : compute->floor;
}

static bool has_turn(const struct vg_compute *compute, const struct compute_lane *lane)
{
	return lane->turn_ns < compute->slice_ms * COMPUTE_MS;
}

static struct vg_compute_unit *pick_fair(struct vg_compute *compute, struct compute_lane *lane)
{
	struct vg_compute_unit *best = NULL;

	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next)
		if (is_waiting(unit, lane) && (!best || get_virtual_time(unit, lane) < get_virtual_time(best, lane)))
			best = unit;
	return best;
}

// Chooses the first waiting compute unit after the unit that had the last turn.
static struct vg_compute_unit *pick_next(struct vg_compute *compute, struct compute_lane *lane)
{
	struct vg_compute_unit *first = NULL;
	bool behind = false;

	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next) {
		if (is_waiting(unit, lane)) {
			if (behind)
				return unit;
			if (!first)
				first = unit;
		}
		behind |= unit == lane->holder;
	}
	return first;
}

static struct vg_compute_unit *pick_urgent(struct vg_compute *compute, struct compute_lane *lane)
{
	struct vg_compute_unit *best = NULL;
	int most = 0;

	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next) {
		if (!is_waiting(unit, lane))
			continue;
		int priority = compute_queue_priority(unit);
		if (!best || priority > most ||
		    (priority == most && get_virtual_time(unit, lane) < get_virtual_time(best, lane))) {
			best = unit;
			most = priority;
		}
	}
	return best;
}

static struct vg_compute_unit *find_holder(struct vg_compute *compute, struct compute_lane *lane)
{
	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next)
		if (unit == lane->holder)
			return is_waiting(unit, lane) ? unit : NULL;
	return NULL;
}

// Finds a compute unit with cancelled work. Cancelled work takes no GPU time, so its end must not wait for a turn.
static struct vg_compute_unit *pick_cancelled(struct vg_compute *compute, struct compute_lane *lane)
{
	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next)
		if (has_work(unit, lane) && atomic_load(&compute_queue_peek(unit, lane)->cancelled))
			return unit;
	return NULL;
}

struct vg_compute_unit *compute_policy_pick(struct vg_compute *compute, struct compute_lane *lane)
{
	struct vg_compute_unit *unit = pick_cancelled(compute, lane);

	if (unit)
		return unit;
	if (compute->policy == VG_COMPUTE_WEIGHTED_FAIR)
		unit = pick_fair(compute, lane);
	else if (has_turn(compute, lane) && (compute->policy == VG_COMPUTE_ROUND_ROBIN || !compute->preemption))
		unit = find_holder(compute, lane);
	if (!unit)
		unit = compute->policy == VG_COMPUTE_PRIORITY ? pick_urgent(compute, lane) : pick_next(compute, lane);
	if (unit && (unit != lane->holder || !has_turn(compute, lane))) {
		lane->holder = unit;
		lane->turn++;
		lane->turn_ns = 0;
	}
	return unit;
}

bool compute_policy_yields(struct vg_compute *compute, struct compute_lane *lane, struct vg_compute_unit *unit)
{
	if (!compute_runs_in(unit, lane))
		return true;
	if (unit->preempted) {
		unit->preempted = false;
		lane->turn_ns = UINT64_MAX / 2; // ends the turn
		return true;
	}
	if (compute->policy == VG_COMPUTE_WEIGHTED_FAIR || !compute_policy_contended(compute, lane, unit))
		return false;
	if (compute->policy == VG_COMPUTE_PRIORITY && compute->preemption)
		return pick_urgent(compute, lane) != unit;
	return !has_turn(compute, lane);
}

static void raise_floor(struct vg_compute *compute)
{
	double least = -1;

	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next)
		if (!unit->idle_since && (least < 0 || unit->virtual_time < least))
			least = unit->virtual_time;
	if (least > compute->floor)
		compute->floor = least;
}

void compute_policy_charge(struct compute_quantum *quantum, uint64_t measured_ns)
{
	struct vg_compute_unit *unit = quantum->unit;
	struct vg_compute *compute = unit->compute;
	struct compute_lane *lane = quantum->lane;
	double sm_seconds = (double)measured_ns / 1e9 * lane->sms;

	unit->busy_ns += measured_ns;
	unit->sm_seconds += sm_seconds;
	unit->virtual_time += sm_seconds / unit->share;
	compute->busy_ns += measured_ns;
	compute->sm_seconds += sm_seconds;
	compute->quanta++;
	if (measured_ns > compute->longest_ns)
		compute->longest_ns = measured_ns;
	if (quantum->turn == lane->turn)
		lane->turn_ns = lane->turn_ns + measured_ns > quantum->estimate
					? lane->turn_ns + measured_ns - quantum->estimate
					: 0;
	raise_floor(compute);
}
