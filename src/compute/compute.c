// Creates and destroys schedulers.
#include "compute/quantum.h"
#include "compute/wait.h"

#include "base/clock.h"
#include "core/error.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_UNITS = 16, DEFAULT_MS = 100 };

enum vg_status compute_usable(void)
{
	if (__builtin_expect(core_forked, 0))
		return vg_fail(VG_STATE, 0,
			       "the process was forked after the driver had been loaded: exec a program that has its "
			       "own scheduler");
	return VG_OK;
}

static void release_ended(struct vg_execution *execution)
{
	struct vg_compute_unit *unit = execution->origin;

	if (execution->entry)
		compute_entry_release(execution->entry);
	else if (execution->job.free)
		execution->job.free(execution->job.user);
	execution->entry = NULL;
	if (execution->ended)
		execution->ended(execution->ended_user);
	if (atomic_fetch_sub(&unit->undelivered, 1) == 1 && atomic_load(&unit->object.closed))
		compute_wake(&unit->undelivered);
	compute_execution_release(execution);
}

void compute_unlock(struct vg_compute *compute)
{
	struct vg_execution *ended = compute->ended;

	compute->ended = NULL;
	pthread_mutex_unlock(&compute->lock);
	while (ended) {
		struct vg_execution *next = ended->chain;
		release_ended(ended);
		ended = next;
	}
}

enum vg_status compute_open_for_work(const struct vg_compute_unit *unit)
{
	const struct vg_compute *compute = unit->compute;

	if (unit->closing)
		return vg_fail(VG_CLOSED, 0, "the unit \"%s\" has been closed", unit->name);
	if (compute->failure)
		return vg_fail(VG_DRIVER, compute->failure, "%s", compute->failure_text);
	return VG_OK;
}

// ---- creation ---------------------------------------------------------------------------------------

static enum vg_status check_options(struct vg_compute_options *o)
{
	if ((unsigned)o->policy > VG_COMPUTE_WEIGHTED_FAIR)
		return vg_fail(VG_INVALID, 0, "policy %d: there are 0 to %d", (int)o->policy, VG_COMPUTE_WEIGHTED_FAIR);
	if ((unsigned)o->placement > VG_PLACEMENT_GROUPS)
		return vg_fail(VG_INVALID, 0, "placement %d: there are 0 to %d", (int)o->placement,
			       VG_PLACEMENT_GROUPS);
	if (!(o->group_tolerance >= 0 && o->group_tolerance <= 1))
		return vg_fail(VG_INVALID, 0, "group_tolerance is %g: 0 to 1 are possible", o->group_tolerance);
	if (o->max_units > COMPUTE_MOST)
		return vg_fail(VG_LIMIT, 0, "max_units is %u: up to %d are possible", o->max_units, COMPUTE_MOST);
	if (o->time_slice_ms > COMPUTE_LONGEST_MS || o->monitoring_interval_ms > COMPUTE_LONGEST_MS)
		return vg_fail(VG_INVALID, 0,
			       "a time slice of %u ms and an interval of %u ms: up to %d ms are possible",
			       o->time_slice_ms, o->monitoring_interval_ms, COMPUTE_LONGEST_MS);
	return VG_OK;
}

static void set_options(struct vg_compute *compute, const struct vg_compute_options *o)
{
	compute->policy = o->policy;
	compute->placement = o->placement;
	compute->tolerance = o->group_tolerance > 0 ? o->group_tolerance : 0.01;
	compute->max_units = o->max_units ? o->max_units : DEFAULT_UNITS;
	compute->slice_ms = o->time_slice_ms ? o->time_slice_ms : DEFAULT_MS;
	compute->interval_ms = o->monitoring_interval_ms ? o->monitoring_interval_ms : DEFAULT_MS;
	compute->lending = !o->no_dynamic_scaling;
	compute->preemption = o->preemption != 0;
}

static void free_compute(struct core_object *object)
{
	struct vg_compute *compute = (struct vg_compute *)object;

	while (compute->pool) {
		struct vg_execution *next = compute->pool->chain;
		free(compute->pool);
		compute->pool = next;
	}
	if (!core_forked) {
		pthread_cond_destroy(&compute->handed);
		pthread_mutex_destroy(&compute->lock);
	}
	compute_registry_destroy(compute->registry);
	vg_context_destroy(compute->context);
	free(compute);
}

static const struct core_class compute_class = {"compute scheduler", NULL, free_compute};

// Starts the scheduler's thread. All signals are blocked in it, so that the program's threads handle them.
static enum vg_status start_thread(struct vg_compute *compute)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&compute->thread, NULL, compute_thread, compute);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return vg_fail(VG_SYSTEM, error, "no thread for the scheduler: %s", strerror(error));
	compute->started = true;
	return VG_OK;
}

static enum vg_status create_parts(struct vg_compute *compute, struct vg_device *device)
{
	unsigned architecture = (unsigned)(device->compute_major * 10 + device->compute_minor);

	enum vg_status status = vg_context_primary(device, &compute->context);
	if (status)
		return status;
	status = compute_registry_create(architecture, &compute->registry);
	if (status)
		return status;
	status = compute_lanes_create(compute);
	return status ? status : start_thread(compute);
}

enum vg_status compute_create(struct vg_device *device, const struct vg_compute_options *options, bool direct,
			      struct vg_compute **ret_compute)
{
	struct vg_compute_options o;

	enum vg_status status = compute_usable();
	if (status)
		return status;
	if (!device || !ret_compute)
		return vg_fail(VG_INVALID, 0, "%s is NULL", device ? "ret_compute" : "device");
	status = vg_options_copy(&o, sizeof o, options);
	if (status)
		return status;
	status = check_options(&o);
	if (status)
		return status;
	struct vg_compute *compute = calloc(1, sizeof *compute);
	if (!compute)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a scheduler");
	core_object_init(&compute->object, &compute_class);
	pthread_mutex_init(&compute->lock, NULL);
	pthread_cond_init(&compute->handed, NULL);
	compute->device = device;
	compute->direct = direct;
	set_options(compute, &o);
	compute_samples_start(&compute->samples);
	status = create_parts(compute, device);
	if (status) {
		compute_lanes_destroy(compute);
		core_object_release(&compute->object);
		return status;
	}
	*ret_compute = compute;
	return VG_OK;
}

enum vg_status vg_compute_create(struct vg_device *device, const struct vg_compute_options *options,
				 struct vg_compute **ret_compute)
{
	VG_ENTRY();
	return compute_create(device, options, false, ret_compute);
}

// ---- close ------------------------------------------------------------------------------------------

static void close_units(struct vg_compute *compute)
{
	for (;;) {
		pthread_mutex_lock(&compute->lock);
		struct vg_compute_unit *unit = compute->units;
		if (unit)
			core_object_retain(&unit->object);
		pthread_mutex_unlock(&compute->lock);
		if (!unit)
			return;
		compute_unit_wait_gone(unit);
		core_object_release(&unit->object);
	}
}

static void end_thread(struct vg_compute *compute)
{
	pthread_mutex_lock(&compute->lock);
	bool join = compute->started && !compute->stopping;
	compute->stopping = true;
	pthread_mutex_unlock(&compute->lock);
	if (!join)
		return;
	compute_ring(compute, COMPUTE_RING_ALWAYS);
	pthread_join(compute->thread, NULL);
	compute_lanes_destroy(compute);
}

void compute_finish(struct vg_compute *compute)
{
	close_units(compute);
	end_thread(compute);
}

static enum vg_status end_compute(struct vg_compute *compute, const char *instead)
{
	enum vg_status status = compute_usable();

	if (status)
		return status;
	status = compute_shut(compute, NULL, instead);
	if (status)
		return status;
	compute_finish(compute);
	return VG_OK;
}

enum vg_status vg_compute_close(struct vg_compute *compute)
{
	VG_ENTRY();
	CORE_NEEDED(compute);
	return end_compute(compute, "vg_compute_end");
}

enum vg_status vg_compute_end(struct vg_compute *compute)
{
	VG_ENTRY();
	CORE_NEEDED(compute);
	return end_compute(compute, NULL);
}

void vg_compute_destroy(struct vg_compute *compute)
{
	VG_ENTRY();
	if (!compute)
		return;
	struct vg_kept_error kept;
	vg_error_keep(&kept);
	if (!core_forked)
		(void)end_compute(compute, NULL);
	vg_error_restore(&kept);
	core_object_release(&compute->object);
}
