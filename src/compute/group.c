// Decides which compute units have SM groups, and whether the groups are in use. The device is split once into the
// smallest possible groups. A unit's group is a green context of adjacent smallest groups. The scheduler keeps these
// contexts for the case that the same shares occur again, because the driver does not free their memory.
#include "compute/quantum.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

enum { MOST_PARTS = 128, IDLE_MS = 10 };

struct compute_parts {
	struct vg_sm_resource *part[MOST_PARTS], *rest;
	size_t count;
};

void compute_parts_destroy(struct compute_parts *parts)
{
	if (!parts)
		return;
	for (size_t i = 0; i < parts->count; i++)
		vg_sm_resource_destroy(parts->part[i]);
	vg_sm_resource_destroy(parts->rest);
	free(parts);
}

static bool split_device(struct vg_compute *compute)
{
	struct vg_sm_resource *all = NULL;

	if (compute->parts)
		return compute->parts->count > 0;
	compute->parts = calloc(1, sizeof *compute->parts);
	if (!compute->parts)
		return false;
	enum vg_status status = vg_device_sm_resource(compute->device, &all);
	if (status == VG_OK)
		status = vg_sm_resource_split_by_count(all, 0, 0, MOST_PARTS, compute->parts->part,
						       &compute->parts->count, &compute->parts->rest);
	vg_sm_resource_destroy(all);
	if (status)
		vg_log(VG_LOG_WARNING, "compute: no SM groups on device %d: %s", compute->device->ordinal,
		       vg_last_error()->text);
	return status == VG_OK && compute->parts->count > 0;
}

// Returns the lane of the parts (smallest groups) from `begin` to `end`, and creates the lane if needed. `rest`: the
// lane also gets the SMs that are in no part.
static struct compute_lane *find_lane(struct vg_compute *compute, unsigned begin, unsigned end, bool rest)
{
	struct vg_sm_resource *sms[MOST_PARTS + 1];
	struct compute_parts *parts = compute->parts;
	struct vg_context *context;
	size_t count = 0;
	unsigned total = 0;

	rest = rest && parts->rest;
	for (struct compute_lane *lane = compute->lanes->next; lane; lane = lane->next)
		if (lane->begin == begin && lane->end == end && lane->rest == rest)
			return lane;
	for (unsigned i = begin; i < end; i++)
		sms[count++] = parts->part[i];
	if (rest)
		sms[count++] = parts->rest;
	for (size_t i = 0; i < count; i++)
		total += vg_sm_resource_count(sms[i]);
	struct vg_context_options options = {.size = sizeof options, .sms = sms, .sm_count = count};
	if (!count || vg_context_create(compute->device, &options, &context)) {
		vg_log(VG_LOG_WARNING, "compute: no SM group of %u SMs, so that shares are kept by time: %s", total,
		       count ? vg_last_error()->text : "no SMs are left");
		return NULL;
	}
	struct compute_lane *lane = compute_lane_new(compute, context, total);
	vg_context_destroy(context);
	if (lane) {
		lane->begin = begin;
		lane->end = end;
		lane->rest = rest;
		lane->group = 0;
	}
	return lane;
}

static void clear_homes(struct vg_compute *compute)
{
	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next) {
		compute_place_drop(&unit->own);
		unit->home = NULL;
		unit->realised = unit->share;
	}
	compute->grouping = false;
}

static bool has_work_in_groups(const struct vg_compute *compute)
{
	for (const struct compute_lane *lane = compute->lanes->next; lane; lane = lane->next)
		if (lane->first)
			return true;
	return false;
}

// Creates the lanes of a plan; the last lane has all SMs without a group. Returns false on failure, without changes to
// compute units. Makes driver calls: call without the lock.
static bool make_lanes(struct vg_compute *compute, const struct compute_plan *plan, const unsigned *parts, size_t count,
		       struct compute_lane **ret_lanes)
{
	unsigned begin = 0;

	for (size_t i = 0; i < count; i++) {
		ret_lanes[i] = parts[i] ? find_lane(compute, begin, begin + parts[i], i == plan->extra) : NULL;
		if (parts[i] && !ret_lanes[i])
			return false;
		if (ret_lanes[i])
			ret_lanes[i]->group = (int)i;
		begin += parts[i];
	}
	ret_lanes[count] = plan->rest ? find_lane(compute, begin, plan->parts, true) : NULL;
	if (ret_lanes[count])
		ret_lanes[count]->group = -1; // the lane belongs to no compute unit alone
	return !plan->rest || ret_lanes[count];
}

static void set_homes(struct vg_compute *compute, const struct compute_plan *plan, const double *shares,
		      struct compute_lane **lanes, size_t count)
{
	struct vg_compute_unit *unit = compute->units;
	double on_rest = 0;

	for (size_t i = 0; i < count; i++)
		on_rest += lanes[i] ? 0 : shares[i];
	for (size_t i = 0; i < count; i++, unit = unit->next) {
		unit->home = lanes[i] ? lanes[i] : lanes[count];
		unit->realised = (double)unit->home->sms / plan->sms * (lanes[i] ? 1 : shares[i] / on_rest);
	}
	compute->grouping = true;
}

static void plan_and_build(struct vg_compute *compute)
{
	struct compute_lane **lanes = NULL;
	unsigned *parts = NULL;
	double *shares = NULL;
	size_t count = compute->unit_count, n = 0;

	compute->regroup = false;
	lanes = calloc(count + 1, sizeof *lanes);
	parts = calloc(count + 1, sizeof *parts);
	shares = calloc(count + 1, sizeof *shares);
	for (struct vg_compute_unit *unit = compute->units; unit && shares; unit = unit->next)
		shares[n++] = unit->share;
	pthread_mutex_unlock(&compute->lock);
	bool good = lanes && parts && shares && count && split_device(compute);
	struct compute_plan plan = {.sms = compute->sms,
				    .tolerance = compute->placement == VG_PLACEMENT_GROUPS ? -1 : compute->tolerance};
	if (good) {
		plan.part_sms = vg_sm_resource_count(compute->parts->part[0]);
		plan.parts = (unsigned)compute->parts->count;
		good = compute_plan_groups(&plan, shares, parts, count);
		// With SM groups, the SMs that are in no group stay idle. If units may use more SMs than their shares
		// (`lending`), use groups only if they have all parts (smallest SM groups).
		if (compute->placement == VG_PLACEMENT_AUTOMATIC && compute->lending)
			good = good && plan.taken == plan.parts;
	}
	good = good && make_lanes(compute, &plan, parts, count, lanes);
	pthread_mutex_lock(&compute->lock);
	if (good && !compute->regroup)
		set_homes(compute, &plan, shares, lanes, count);
	free(shares);
	free(parts);
	free(lanes);
}

// Returns whether compute units should share the whole device in time: then work of one unit can use the SMs of an idle
// unit.
static bool is_lending_useful(const struct vg_compute *compute)
{
	uint64_t now = vg_clock_monotonic_ns();
	bool idle = false, waits = false;

	if (!compute->lending)
		return false;
	for (const struct vg_compute_unit *unit = compute->units; unit; unit = unit->next) {
		idle |= unit->idle_since && now - unit->idle_since > IDLE_MS * COMPUTE_MS;
		waits |= unit->ready && !unit->paused;
	}
	return idle && (waits || !compute->grouped);
}

static void set_grouped(struct vg_compute *compute, bool grouped)
{
	if (compute->grouped == grouped)
		return;
	compute->grouped = grouped;
	compute_feed_close(compute);
}

void compute_group(struct vg_compute *compute)
{
	if (compute->placement == VG_PLACEMENT_TIME || compute->direct || compute->failure)
		return;
	if (compute->regroup) {
		set_grouped(compute, false); // run on the whole device once the groups' quanta have ended
		if (has_work_in_groups(compute))
			return;
		clear_homes(compute);
		plan_and_build(compute);
	}
	set_grouped(compute, compute->grouping && !is_lending_useful(compute));
}
