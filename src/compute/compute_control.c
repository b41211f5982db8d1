// Gives information about a scheduler, and changes the scheduler while it runs.
#include "compute/quantum.h"

#include <math.h>

static void add_unit(struct vg_compute_info *info, const struct vg_compute_unit *unit)
{
	info->unclaimed_share -= unit->share;
	info->queue_length += unit->queued;
	info->running += unit->running;
}

enum vg_status vg_compute_info(struct vg_compute *compute, struct vg_compute_info *ret_info)
{
	VG_ENTRY();
	CORE_USABLE(compute, "compute");
	CORE_NEEDED(ret_info);
	enum vg_status status = compute_usable();
	if (status)
		return status;
	pthread_mutex_lock(&compute->lock);
	struct vg_compute_info info = {
		.policy = compute->policy,
		.placement = compute->placement,
		.grouped = compute->grouped,
		.time_slice_ms = compute->slice_ms,
		.monitoring_interval_ms = compute->interval_ms,
		.units = compute->unit_count,
		.max_units = compute->max_units,
		.sms = compute->sms,
		.unclaimed_share = 1,
		.quanta = compute->quanta,
		.busy_ns = compute->busy_ns,
		.longest_ns = compute->longest_ns,
		.sm_seconds = compute->sm_seconds,
		.failed = compute->failure != 0,
		.failure = compute->failure,
	};
	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next)
		add_unit(&info, unit);
	if (fabs(info.unclaimed_share) < 1e-9)
		info.unclaimed_share = 0;
	bool known;
	double rate =
		compute_samples_look(&compute->samples, compute->interval_ms * COMPUTE_MS, compute->sm_seconds, &known);
	info.utilization_known = known && !compute->direct;
	info.utilization = info.utilization_known ? fmin(rate / compute->sms, 1) : 0;
	pthread_mutex_unlock(&compute->lock);
	*ret_info = info;
	return VG_OK;
}

enum vg_status vg_compute_set_time_slice(struct vg_compute *compute, unsigned milliseconds)
{
	VG_ENTRY();
	CORE_USABLE(compute, "compute");
	enum vg_status status = compute_usable();
	if (status)
		return status;
	if (!milliseconds || milliseconds > COMPUTE_LONGEST_MS)
		return vg_fail(VG_INVALID, 0, "a time slice of %u ms: 1 to %d are possible", milliseconds,
			       COMPUTE_LONGEST_MS);
	pthread_mutex_lock(&compute->lock);
	compute->slice_ms = milliseconds;
	pthread_mutex_unlock(&compute->lock);
	return VG_OK;
}

enum vg_status vg_compute_set_policy(struct vg_compute *compute, enum vg_compute_policy policy)
{
	VG_ENTRY();
	CORE_USABLE(compute, "compute");
	enum vg_status status = compute_usable();
	if (status)
		return status;
	if ((unsigned)policy > VG_COMPUTE_WEIGHTED_FAIR)
		return vg_fail(VG_INVALID, 0, "policy %d: there are 0 to %d", (int)policy, VG_COMPUTE_WEIGHTED_FAIR);
	pthread_mutex_lock(&compute->lock);
	compute->policy = policy;
	// Reset the virtual times: the new policy must not count GPU time that compute units got under the old one.
	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next)
		compute->floor = unit->virtual_time > compute->floor ? unit->virtual_time : compute->floor;
	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next)
		unit->virtual_time = compute->floor;
	pthread_mutex_unlock(&compute->lock);
	return VG_OK;
}
