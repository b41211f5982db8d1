// Creates and releases executions. An execution (struct vg_execution) is one piece of submitted work. Executions come
// from a pool of the scheduler, because a program may submit one for each launch. The program owns one reference if it
// asked for one. The scheduler owns one until the work has ended.
#include "compute/engine.h"
#include "compute/wait.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { POOLED = 4096 };

static void free_execution(struct core_object *object)
{
	compute_execution_recycle((struct vg_execution *)object);
}

static const struct core_class execution_class = {"execution", NULL, free_execution};

struct vg_execution *compute_execution_allocate(struct vg_compute_unit *unit)
{
	struct vg_compute *compute = unit->compute;

	vg_lock_acquire(&compute->pool_lock);
	struct vg_execution *execution = compute->pool;
	if (execution) {
		compute->pool = execution->chain;
		compute->pooled--;
	}
	vg_lock_release(&compute->pool_lock);
	if (!execution) {
		execution = aligned_alloc(64, (sizeof *execution + 63) / 64 * 64);
		if (!execution)
			return NULL;
	}
	memset(execution, 0, offsetof(struct vg_execution, inside));
	core_object_init(&execution->object, &execution_class);
	atomic_init(&execution->state, VG_EXECUTION_QUEUED);
	execution->values = execution->inside;
	execution->origin = execution->runner = unit;
	core_object_retain(&unit->object);
	return execution;
}

void compute_execution_recycle(struct vg_execution *execution)
{
	struct vg_compute_unit *unit = execution->origin;
	struct vg_compute *compute = unit->compute;

	free(execution->attributes);
	free(execution->block);
	free(execution->failure_text);
	// Keep the scheduler alive until the end of this function. Otherwise the release of the compute unit could also
	// release the last reference to the scheduler.
	core_object_retain(&compute->object);
	core_object_release(&unit->object);
	vg_lock_acquire(&compute->pool_lock);
	bool keep = compute->pooled < POOLED;
	if (keep) {
		execution->chain = compute->pool;
		compute->pool = execution;
		compute->pooled++;
	}
	vg_lock_release(&compute->pool_lock);
	if (!keep)
		free(execution);
	core_object_release(&compute->object);
}

// Releases a reference. This is cheaper than core_object_release(), which also keeps the thread's last error.
void compute_execution_release(struct vg_execution *execution)
{
	if (atomic_fetch_sub_explicit(&execution->object.references, 1, memory_order_acq_rel) == 1)
		compute_execution_recycle(execution);
}

void compute_execution_fail(struct vg_execution *execution, enum vg_status status)
{
	if (execution->failure)
		return;
	execution->failure = status;
	execution->failure_code = vg_last_error()->code;
	execution->failure_text = strdup(vg_last_error()->text);
}

static void count_end(struct vg_execution *execution, enum vg_execution_state state)
{
	struct vg_compute_unit *runner = execution->runner;

	if (atomic_load_explicit(&execution->state, memory_order_relaxed) == VG_EXECUTION_QUEUED) {
		runner->queued--;
	} else {
		runner->running--;
		compute_failure_count(runner->compute, -1);
	}
	runner->completed += state == VG_EXECUTION_COMPLETED;
	runner->failures += state == VG_EXECUTION_FAILED;
	runner->cancelled += state == VG_EXECUTION_CANCELLED;
}

void compute_execution_end(struct vg_execution *execution, enum vg_execution_state state)
{
	struct vg_compute_unit *origin = execution->origin, *runner = execution->runner;
	struct vg_compute *compute = origin->compute;

	count_end(execution, state);
	compute_queue_remove(execution);
	origin->unfinished--;
	execution->ended_ns = vg_clock_monotonic_ns();
	atomic_store(&execution->state, state);
	if (atomic_load(&execution->waiters))
		compute_wake(&execution->state);
	if (origin->syncing)
		pthread_cond_broadcast(&origin->changed);
	if (runner != origin && runner->syncing)
		pthread_cond_broadcast(&runner->changed);
	compute_queue_note_idle(runner);
	atomic_fetch_add(&origin->undelivered, 1);
	execution->chain = compute->ended;
	compute->ended = execution;
}

// ---- public functions -------------------------------------------------------------------------------

enum vg_execution_state vg_execution_state(const struct vg_execution *execution)
{
	return execution ? (enum vg_execution_state)atomic_load(&execution->state) : VG_EXECUTION_COMPLETED;
}

uint64_t vg_execution_id(const struct vg_execution *execution)
{
	return execution ? execution->id : 0;
}

static enum vg_status get_result(const struct vg_execution *execution)
{

	switch (atomic_load(&execution->state)) {
	case VG_EXECUTION_COMPLETED:
		return VG_OK;
	case VG_EXECUTION_CANCELLED:
		return vg_fail(VG_STATE, 0, "execution %llu (\"%s\") was cancelled, %u launches in",
			       (unsigned long long)execution->id, execution->name, atomic_load(&execution->launched));
	default:
		return vg_fail(execution->failure, execution->failure_code, "%s",
			       execution->failure_text ? execution->failure_text : "the work failed");
	}
}

enum vg_status vg_execution_wait(struct vg_execution *execution, double timeout_seconds)
{
	VG_ENTRY();
	CORE_NEEDED(execution);
	enum vg_status status = compute_usable();
	if (status)
		return status;
	if (compute_has_ended(execution))
		return get_result(execution);
	struct vg_compute *compute = execution->origin->compute;
	uint64_t until = compute_deadline(timeout_seconds);
	atomic_fetch_add(&compute->waiters, 1);
	atomic_fetch_add(&execution->waiters, 1);
	unsigned state;
	bool in_time = true;
	while ((state = atomic_load(&execution->state)) < VG_EXECUTION_COMPLETED && in_time)
		in_time = compute_wait(&execution->state, state, until);
	atomic_fetch_sub(&execution->waiters, 1);
	atomic_fetch_sub(&compute->waiters, 1);
	if (state < VG_EXECUTION_COMPLETED)
		return vg_fail(VG_NOT_READY, 0, "execution %llu (\"%s\") is %s after %g s",
			       (unsigned long long)execution->id, execution->name,
			       state == VG_EXECUTION_QUEUED ? "queued" : "running", timeout_seconds);
	return get_result(execution);
}

enum vg_status vg_execution_cancel(struct vg_execution *execution)
{
	VG_ENTRY();
	CORE_NEEDED(execution);
	enum vg_status status = compute_usable();
	if (status)
		return status;
	struct vg_compute *compute = execution->origin->compute;
	pthread_mutex_lock(&compute->lock);
	if (compute_has_ended(execution))
		status = vg_fail(VG_STATE, 0, "execution %llu (\"%s\") has ended", (unsigned long long)execution->id,
				 execution->name);
	else if (atomic_load(&execution->state) == VG_EXECUTION_QUEUED)
		compute_execution_end(execution, VG_EXECUTION_CANCELLED);
	else
		atomic_store(&execution->cancelled, true);
	compute_unlock(compute);
	compute_ring(compute, COMPUTE_RING_ALWAYS);
	return status;
}

enum vg_status vg_execution_info(struct vg_execution *execution, struct vg_execution_info *ret_info)
{
	VG_ENTRY();
	CORE_NEEDED(execution);
	CORE_NEEDED(ret_info);
	enum vg_status status = compute_usable();
	if (status)
		return status;
	struct vg_compute *compute = execution->origin->compute;
	pthread_mutex_lock(&compute->lock);
	struct vg_execution_info info = {
		.id = execution->id,
		.state = (enum vg_execution_state)atomic_load(&execution->state),
		.stream = execution->stream->index,
		.priority = execution->priority,
		.launches = atomic_load(&execution->launched),
		.queued_ns = execution->queued_ns,
		.started_ns = execution->started_ns,
		.ended_ns = execution->ended_ns,
	};
	info.gpu_ns_known = compute_has_ended(execution) && !execution->gpu_shared && info.launches;
	info.gpu_ns = info.gpu_ns_known ? execution->gpu_ns : 0;
	memcpy(info.kernel, execution->name, sizeof info.kernel);
	pthread_mutex_unlock(&compute->lock);
	*ret_info = info;
	return VG_OK;
}

void vg_execution_destroy(struct vg_execution *execution)
{
	if (execution)
		compute_execution_release(execution);
}
