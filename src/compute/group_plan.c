// Converts shares to numbers of SMs, in multiples of the smallest group.
#include "compute/quantum.h"

#include <math.h>

static double compute_size(const struct compute_plan *plan, unsigned parts)
{
	return (double)parts * plan->part_sms / plan->sms;
}

// Takes one part (smallest SM group) from the compute unit whose group is furthest above its share.
static void remove_part(const struct compute_plan *plan, const double *shares, unsigned *parts, size_t count)
{
	size_t most = 0;
	double above = -2;

	for (size_t i = 0; i < count; i++) {
		double now = parts[i] ? compute_size(plan, parts[i]) - shares[i] : -2;
		if (now > above) {
			above = now;
			most = i;
		}
	}
	parts[most]--;
}

// Gives the SMs that are in no part (smallest SM group) to the compute unit furthest below its share. Does so only if
// that reduces the deviation from the shares, and if the program requires groups. Otherwise time sharing wastes less:
// in a group that is not a multiple of parts, more SMs idle at the end of a kernel.
static size_t place_extra(const struct compute_plan *plan, const double *shares, const unsigned *parts, size_t count)
{
	double extra = 1 - compute_size(plan, plan->parts), below = extra / 2;
	size_t index = SIZE_MAX;

	for (size_t i = 0; i < count && !plan->rest && plan->tolerance < 0; i++) {
		double now = shares[i] - compute_size(plan, parts[i]);
		if (parts[i] && now > below) {
			below = now;
			index = i;
		}
	}
	return extra > 0 ? index : SIZE_MAX;
}

bool compute_plan_groups(struct compute_plan *plan, const double *shares, unsigned *ret_parts, size_t count)
{
	plan->taken = 0;
	for (size_t i = 0; i < count; i++) {
		ret_parts[i] = (unsigned)(shares[i] * plan->sms / plan->part_sms + 0.5);
		plan->taken += ret_parts[i];
	}
	// Rounding may have given all units together more parts than the device has. Take parts back until they
	// suffice, and until SMs are left for the units that get no part.
	for (;;) {
		plan->rest = false;
		for (size_t i = 0; i < count; i++)
			plan->rest |= ret_parts[i] == 0;
		bool none = plan->taken == plan->parts && plan->parts * plan->part_sms == plan->sms;
		if (!plan->taken || (plan->taken <= plan->parts && !(plan->rest && none)))
			break;
		remove_part(plan, shares, ret_parts, count);
		plan->taken--;
	}
	plan->extra = place_extra(plan, shares, ret_parts, count);
	for (size_t i = 0; i < count && plan->tolerance >= 0; i++)
		if (!ret_parts[i] || fabs(compute_size(plan, ret_parts[i]) - shares[i]) > plan->tolerance)
			return false;
	return plan->taken > 0;
}
