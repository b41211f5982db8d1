// Shares as numbers of SMs, which come in parts of some SMs.
#include "compute/quantum.h"

#include <math.h>

static double size_of(const struct compute_plan *plan, unsigned parts)
{
	return (double)parts * plan->part_sms / plan->sms;
}

// The group that is furthest above its share gives a part away.
static void take_part(const struct compute_plan *plan, const double *shares, unsigned *parts, size_t count)
{
	size_t most = 0;
	double above = -2;

	for (size_t i = 0; i < count; i++) {
		double now = parts[i] ? size_of(plan, parts[i]) - shares[i] : -2;
		if (now > above) {
			above = now;
			most = i;
		}
	}
	parts[most]--;
}

// SMs that are in no part make the group that is furthest below its share larger, if that brings it nearer. Not where
// time could be shared instead: odd numbers of SMs leave more of them idle at the end of a kernel than turns cost.
static size_t place_extra(const struct compute_plan *plan, const double *shares, const unsigned *parts, size_t count)
{
	double extra = 1 - size_of(plan, plan->parts), below = extra / 2;
	size_t who = SIZE_MAX;

	for (size_t i = 0; i < count && !plan->rest && plan->tolerance < 0; i++) {
		double now = shares[i] - size_of(plan, parts[i]);
		if (parts[i] && now > below) {
			below = now;
			who = i;
		}
	}
	return extra > 0 ? who : SIZE_MAX;
}

bool compute_plan_groups(struct compute_plan *plan, const double *shares, unsigned *ret_parts, size_t count)
{
	plan->taken = 0;
	for (size_t i = 0; i < count; i++) {
		ret_parts[i] = (unsigned)(shares[i] * plan->sms / plan->part_sms + 0.5);
		plan->taken += ret_parts[i];
	}
	// Whoever shares the rest needs some SMs there, if only those that no part has.
	for (;;) {
		plan->rest = false;
		for (size_t i = 0; i < count; i++)
			plan->rest |= ret_parts[i] == 0;
		bool none = plan->taken == plan->parts && plan->parts * plan->part_sms == plan->sms;
		if (!plan->taken || (plan->taken <= plan->parts && !(plan->rest && none)))
			break;
		take_part(plan, shares, ret_parts, count);
		plan->taken--;
	}
	plan->extra = place_extra(plan, shares, ret_parts, count);
	for (size_t i = 0; i < count && plan->tolerance >= 0; i++)
		if (!ret_parts[i] || fabs(size_of(plan, ret_parts[i]) - shares[i]) > plan->tolerance)
			return false;
	return plan->taken > 0;
}
