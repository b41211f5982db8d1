// Closes compute units and schedulers. A function whose name ends with _close fails while there is work; one whose name
// ends with _end cancels the work.
#include "compute/engine.h"
#include "compute/wait.h"

#include "base/log.h"

#include <stdio.h>

// Fails with BUSY if the compute unit `alone`, or any unit if `alone` is NULL, has work. Succeeds if the context has
// failed, because no work can run then. Call with the lock held.
static enum vg_status check_idle(const struct vg_compute *compute, const struct vg_compute_unit *alone,
				 const char *instead)
{
	const struct vg_compute_unit *first = NULL;
	unsigned queued = 0, running = 0, others = 0;

	for (const struct vg_compute_unit *unit = compute->units; unit && !compute->failure; unit = unit->next) {
		if ((alone && unit != alone) || unit->closing || !unit->unfinished)
			continue;
		others += first != NULL;
		first = first ? first : unit;
		for (unsigned i = 0; i < unit->stream_count; i++)
			for (const struct vg_execution *one = unit->streams[i].head; one; one = one->next)
				(*(atomic_load(&one->state) == VG_EXECUTION_QUEUED ? &queued : &running))++;
	}
	if (!first)
		return VG_OK;
	char more[32] = "";
	if (others)
		snprintf(more, sizeof more, " and %u other%s", others, others > 1 ? "s" : "");
	else if (first->paused)
		snprintf(more, sizeof more, ", which is paused");
	return vg_fail(VG_BUSY, 0,
		       "there is work in \"%s\"%s: %u queued, %u running; synchronize or cancel it first, or use %s(), "
		       "which cancels it",
		       first->name, more, queued, running, instead);
}

// Makes the compute unit accept no more work, and cancels all its work. Returns how much work the unit had. Call with
// the lock held.
static unsigned shut_unit(struct vg_compute_unit *unit)
{
	unsigned left = unit->closing ? 0 : unit->unfinished;

	unit->closing = true;
	atomic_store(&unit->object.closed, true);
	compute_queue_cancel_all(unit);
	compute_queue_give_back(unit);
	pthread_cond_broadcast(&unit->changed);
	return left;
}

enum vg_status compute_shut(struct vg_compute *compute, struct vg_compute_unit *alone, const char *instead)
{
	enum vg_status status = VG_OK;
	unsigned left = 0;

	pthread_mutex_lock(&compute->lock);
	if (instead)
		status = check_idle(compute, alone, instead);
	for (struct vg_compute_unit *unit = compute->units; unit && status == VG_OK; unit = unit->next)
		if (!alone || unit == alone)
			left += shut_unit(unit);
	if (status == VG_OK && !alone)
		// A thread that creates a compute unit checks `closed` while it holds the lock, so no unit is added
		// after this.
		atomic_store(&compute->object.closed, true);
	compute_unlock(compute);
	if (status)
		return status;
	compute_ring(compute, COMPUTE_RING_ALWAYS);
	if (left)
		vg_log(VG_LOG_WARNING, "%s was closed with %u executions in it: they are cancelled",
		       alone ? alone->name : "a scheduler", left);
	return VG_OK;
}

void compute_unit_wait_gone(struct vg_compute_unit *unit)
{
	struct vg_compute *compute = unit->compute;

	pthread_mutex_lock(&compute->lock);
	atomic_fetch_add(&compute->waiters, 1);
	unit->syncing++;
	while (!unit->gone)
		pthread_cond_wait(&unit->changed, &compute->lock);
	unit->syncing--;
	atomic_fetch_sub(&compute->waiters, 1);
	compute_unlock(compute);
	// Wait for the callbacks of ended work: they may use what the caller is about to free.
	for (unsigned left; (left = atomic_load(&unit->undelivered));)
		compute_wait(&unit->undelivered, left, UINT64_MAX);
}

static enum vg_status end_unit(struct vg_compute_unit *unit, const char *instead)
{
	enum vg_status status = compute_shut(unit->compute, unit, instead);

	if (status)
		return status;
	compute_unit_wait_gone(unit);
	return VG_OK;
}

enum vg_status vg_compute_unit_close(struct vg_compute_unit *unit)
{
	VG_ENTRY();
	CORE_NEEDED(unit);
	enum vg_status status = compute_usable();
	return status ? status : end_unit(unit, "vg_compute_unit_end");
}

enum vg_status vg_compute_unit_end(struct vg_compute_unit *unit)
{
	VG_ENTRY();
	CORE_NEEDED(unit);
	enum vg_status status = compute_usable();
	return status ? status : end_unit(unit, NULL);
}

void vg_compute_unit_destroy(struct vg_compute_unit *unit)
{
	VG_ENTRY();
	if (!unit)
		return;
	if (!core_forked)
		(void)end_unit(unit, NULL);
	core_object_release(&unit->object);
}
