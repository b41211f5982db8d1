// Gives information about a compute unit, and changes a unit while it has work.
#include "compute/quantum.h"
#include "compute/share.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

// Locks the scheduler, or returns why the compute unit cannot be used.
static enum vg_status lock_unit(struct vg_compute_unit *unit)
{
	enum vg_status status = core_object_check(&unit->object, "unit");

	if (status)
		return status;
	status = compute_usable();
	if (status)
		return status;
	pthread_mutex_lock(&unit->compute->lock);
	return VG_OK;
}

static void unlock_unit(struct vg_compute_unit *unit)
{
	compute_unlock(unit->compute);
	compute_ring(unit->compute, COMPUTE_RING_ALWAYS);
}

static double sum_other_shares(const struct vg_compute_unit *unit)
{
	double taken = 0;

	for (const struct vg_compute_unit *other = unit->compute->units; other; other = other->next)
		taken += other == unit ? 0 : other->share;
	return taken;
}

static enum vg_status change_share(struct vg_compute_unit *unit, struct compute_share_asked asked)
{
	double share;

	enum vg_status status = lock_unit(unit);
	if (status)
		return status;
	asked.max_units = unit->compute->max_units;
	asked.taken = sum_other_shares(unit);
	status = unit->compute->direct
			 ? vg_fail(VG_STATE, 0, "work of the unit \"%s\" goes straight to the driver: it has no share",
				   unit->name)
			 : compute_share(&asked, &share);
	if (status == VG_OK) {
		unit->share = unit->realised = share;
		unit->compute->regroup = true;
	}
	unlock_unit(unit);
	return status;
}

enum vg_status vg_compute_unit_set_share(struct vg_compute_unit *unit, double share)
{
	VG_ENTRY();
	CORE_NEEDED(unit);
	if (!(share > 0))
		return vg_fail(VG_INVALID, 0, "a share of %g: above 0 up to 1 is possible", share);
	return change_share(unit, (struct compute_share_asked){.share = share});
}

enum vg_status vg_compute_unit_scale(struct vg_compute_unit *unit, unsigned compute_units)
{
	VG_ENTRY();
	CORE_NEEDED(unit);
	if (!compute_units)
		return vg_fail(VG_INVALID, 0,
			       "0 compute units: 1 to max_units are possible; to give a unit none, pause or close it");
	return change_share(unit, (struct compute_share_asked){.units = compute_units});
}

enum vg_status vg_compute_unit_set_priority(struct vg_compute_unit *unit, int priority)
{
	VG_ENTRY();
	CORE_NEEDED(unit);
	enum vg_status status = lock_unit(unit);
	if (status)
		return status;
	unit->priority = priority;
	if (unit->compute->preemption && unit->stream_priority != priority) {
		unit->stream_priority = priority;
		unit->new_streams = true;
	}
	unlock_unit(unit);
	return VG_OK;
}

static enum vg_status set_flag(struct vg_compute_unit *unit, bool *flag, int allowed)
{
	if (allowed != 0 && allowed != 1)
		return vg_fail(VG_INVALID, 0, "allowed is %d: 0 and 1 are possible", allowed);
	enum vg_status status = lock_unit(unit);
	if (status)
		return status;
	*flag = allowed != 0;
	unlock_unit(unit);
	return VG_OK;
}

enum vg_status vg_compute_unit_set_tensor_cores(struct vg_compute_unit *unit, int allowed)
{
	VG_ENTRY();
	CORE_NEEDED(unit);
	return set_flag(unit, &unit->tensor, allowed);
}

enum vg_status vg_compute_unit_set_mixed_precision(struct vg_compute_unit *unit, int allowed)
{
	VG_ENTRY();
	CORE_NEEDED(unit);
	return set_flag(unit, &unit->mixed, allowed);
}

static enum vg_status set_paused(struct vg_compute_unit *unit, bool paused)
{
	enum vg_status status = lock_unit(unit);

	if (status)
		return status;
	compute_queue_pause(unit, paused);
	unlock_unit(unit);
	return VG_OK;
}

enum vg_status vg_compute_unit_pause(struct vg_compute_unit *unit)
{
	VG_ENTRY();
	CORE_NEEDED(unit);
	return set_paused(unit, true);
}

enum vg_status vg_compute_unit_resume(struct vg_compute_unit *unit)
{
	VG_ENTRY();
	CORE_NEEDED(unit);
	return set_paused(unit, false);
}

// ---- information ------------------------------------------------------------------------------------

static void roll_samples(struct compute_samples *samples, uint64_t now, uint64_t interval_ns, double sm_seconds)
{
	if (now - samples->last.ns < interval_ns)
		return;
	samples->before = samples->last;
	samples->last = (struct compute_sample){now, sm_seconds};
	samples->known = true;
}

void compute_samples_start(struct compute_samples *samples)
{
	samples->last = (struct compute_sample){vg_clock_monotonic_ns(), 0};
}

void compute_samples_roll(struct vg_compute *compute)
{
	uint64_t now = vg_clock_monotonic_ns(), interval_ns = compute->interval_ms * COMPUTE_MS;

	if (now - compute->samples.last.ns < interval_ns)
		return;
	roll_samples(&compute->samples, now, interval_ns, compute->sm_seconds);
	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next)
		roll_samples(&unit->samples, now, interval_ns, unit->sm_seconds);
}

double compute_samples_look(struct compute_samples *samples, uint64_t interval_ns, double sm_seconds, bool *ret_known)
{
	uint64_t now = vg_clock_monotonic_ns();

	roll_samples(samples, now, interval_ns, sm_seconds);
	*ret_known = samples->known && now > samples->before.ns;
	if (!*ret_known)
		return 0;
	return (sm_seconds - samples->before.sm_seconds) * 1e9 / (double)(now - samples->before.ns);
}

static void fill_shape(const struct vg_compute_unit *unit, struct vg_compute_unit_info *info)
{
	const struct vg_compute *compute = unit->compute;
	const bool home = compute->grouped && unit->home;

	memcpy(info->name, unit->name, sizeof info->name);
	info->share = unit->share;
	info->realised_share = home ? unit->realised : unit->share;
	info->group = home ? unit->home->group : -1;
	info->how = info->group >= 0 ? VG_SHARE_BY_GROUP : VG_SHARE_BY_TIME;
	info->sms = home ? unit->home->sms : compute->sms;
	info->max_units = compute->max_units;
	info->compute_units = (unsigned)lround(unit->share * compute->max_units);
	info->priority = compute_queue_priority(unit);
	info->paused = unit->paused;
	info->streams = unit->stream_count;
	info->max_concurrent_kernels = unit->slot_count;
	info->tensor_cores = unit->tensor;
	info->mixed_precision = unit->mixed;
	info->failed = compute->failure != 0;
	info->failure = compute->failure;
}

enum vg_status vg_compute_unit_info(struct vg_compute_unit *unit, struct vg_compute_unit_info *ret_info)
{
	VG_ENTRY();
	struct vg_compute_unit_info info = {0};
	bool known;

	CORE_NEEDED(unit);
	CORE_NEEDED(ret_info);
	enum vg_status status = lock_unit(unit);
	if (status)
		return status;
	struct vg_compute *compute = unit->compute;
	fill_shape(unit, &info);
	for (unsigned i = 0; i < unit->stream_count; i++)
		info.active_streams += unit->streams[i].head != NULL;
	info.queue_length = unit->queued;
	info.running = unit->running;
	info.launches = unit->launches;
	info.completed = unit->completed;
	info.failures = unit->failures;
	info.cancelled = unit->cancelled;
	info.busy_ns = unit->busy_ns;
	info.sm_seconds = unit->sm_seconds;
	info.measured = !compute->direct;
	double rate = compute_samples_look(&unit->samples, compute->interval_ms * COMPUTE_MS, unit->sm_seconds, &known);
	info.utilization_known = known && info.measured;
	info.utilization = info.utilization_known ? fmin(rate / compute->sms, 1) : 0;
	compute_unlock(compute);
	*ret_info = info;
	return VG_OK;
}
