// Runs the balancer's thread: binds work to a virtual GPU shortly before the work runs, and reports the work's end.
#include "manager/balancer_engine.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdlib.h>

enum {
	// Enough work is bound in advance to keep the virtual GPU busy for this time. So the virtual GPU never waits
	// for this thread.
	AHEAD_NS = 20000000,
	MAX_GAP_NS = 100000000, // a longer interval between two ends was idle time and does not count
	MAX_AHEAD = 512
};

// Updates the average interval between the ends of executions. This interval determines how many executions are bound
// ahead.
static void note_end(struct balancer_queue *queue, uint64_t now)
{
	uint64_t gap = queue->last_end_ns ? now - queue->last_end_ns : MAX_GAP_NS;

	if (gap > MAX_GAP_NS)
		gap = MAX_GAP_NS;
	queue->gap_ns = queue->gap_ns ? (7 * queue->gap_ns + gap) / 8 : gap;
	queue->last_end_ns = now;
}

static size_t compute_room(const struct balancer_queue *queue)
{
	size_t wide = queue->gap_ns ? AHEAD_NS / queue->gap_ns : 0;

	if (wide > MAX_AHEAD)
		wide = MAX_AHEAD;
	return wide > queue->window ? wide : queue->window;
}

void balancer_notice(void *user)
{
	struct vg_balanced *work = user;
	struct vg_balancer *balancer = work->balancer;

	pthread_mutex_lock(&balancer->worker.lock);
	// The queue exists while its virtual GPU has bound work.
	struct balancer_queue *queue = balancer_queue_find(balancer, work->key);
	balancer_list_remove(&queue->bound, work);
	note_end(queue, vg_clock_monotonic_ns());
	balancer_list_add(&balancer->ended, work);
	pthread_cond_signal(&balancer->worker.wake);
	pthread_mutex_unlock(&balancer->worker.lock);
}

// ---- ends of work ---------------------------------------------------------------------------------------------

static void count_end(struct vg_balancer *balancer, enum vg_execution_state state)
{
	struct vg_balancer_info *info = &balancer->info;

	info->completed += state == VG_EXECUTION_COMPLETED;
	info->failed += state == VG_EXECUTION_FAILED;
	info->cancelled += state == VG_EXECUTION_CANCELLED;
}

// Calls the program's callback for ended work, and wakes waiting threads. Call without the lock.
static void end_work(struct vg_balancer *balancer, struct vg_balanced *work)
{
	enum vg_execution_state state = work->execution ? balancer_state(work->execution) : work->info.state;
	enum vg_status failure = VG_OK;

	if (work->execution && state == VG_EXECUTION_FAILED)
		failure = balancer_failure(work->execution);
	if (work->ended)
		work->ended(work->user, state);
	pthread_mutex_lock(&balancer->worker.lock);
	struct vg_execution *execution = work->execution;
	work->execution = NULL;
	if (failure)
		balancer_work_fail(work, failure);
	work->info.state = state;
	work->info.ended_ns = vg_clock_monotonic_ns();
	work->done = true;
	count_end(balancer, state);
	pthread_cond_broadcast(&work->changed);
	pthread_mutex_unlock(&balancer->worker.lock);
	balancer_release(execution);
	core_object_release(&work->object);
}

static bool report_end(struct vg_balancer *balancer)
{
	pthread_mutex_lock(&balancer->worker.lock);
	struct vg_balanced *work = balancer_list_pop(&balancer->ended);
	pthread_mutex_unlock(&balancer->worker.lock);
	if (work)
		end_work(balancer, work);
	return work != NULL;
}

// ---- binding --------------------------------------------------------------------------------------------------

// Returns whether work of the queue can be bound. Includes queues of closed virtual GPUs, so that their work moves to
// other ones.
static bool can_bind(const struct balancer_queue *queue)
{
	return queue->waiting.count &&
	       (!queue->listed || (queue->takes_work && queue->bound.count < compute_room(queue)));
}

// Removes the next work that can be bound from its queue, and adds it to the list of bound work. Returns NULL if no
// work can be bound. Call with the lock held.
static struct vg_balanced *pick_work(struct vg_balancer *balancer)
{
	for (struct balancer_queue *queue = balancer->queues; queue; queue = queue->next) {
		if (!can_bind(queue))
			continue;
		struct vg_balanced *work = balancer_list_pop(&queue->waiting);
		balancer_list_add(&queue->bound, work);
		work->key = queue->key;
		work->info.manager = queue->key.manager;
		work->info.id = queue->key.id;
		return work;
	}
	return NULL;
}

// Removes work from the list of bound work. If `waits` is true, puts the work back into the queue, and no work of this
// queue is bound until the next snapshot. If `waits` is false, the work is in no queue afterwards.
static void undo_binding(struct vg_balancer *balancer, struct vg_balanced *work, bool waits)
{
	pthread_mutex_lock(&balancer->worker.lock);
	struct balancer_queue *queue = balancer_queue_find(balancer, work->key);
	balancer_list_remove(&queue->bound, work);
	if (waits) {
		balancer_list_add(&queue->waiting, work);
		queue->takes_work = false;
	}
	pthread_mutex_unlock(&balancer->worker.lock);
}

static void fail_work(struct vg_balancer *balancer, struct vg_balanced *work, enum vg_status status)
{
	pthread_mutex_lock(&balancer->worker.lock);
	balancer_work_fail(work, status);
	balancer_list_add(&balancer->ended, work);
	pthread_mutex_unlock(&balancer->worker.lock);
}

static void note_bound(struct vg_balancer *balancer, struct vg_balanced *work, struct vg_execution *execution)
{
	pthread_mutex_lock(&balancer->worker.lock);
	work->execution = execution;
	work->info.bound = 1;
	work->info.bound_ns = vg_clock_monotonic_ns();
	bool cancelled = work->cancelled;
	pthread_mutex_unlock(&balancer->worker.lock);
	if (cancelled)
		balancer_stop(execution);
}

static void bind_work(struct vg_balancer *balancer, struct vg_balanced *work)
{
	struct vg_execution *execution = NULL;
	enum vg_status status = VG_OK;

	core_object_retain(&work->object); // keeps the work alive if the execution ends before this function returns
	enum balancer_fate fate =
		balancer_submit(balancer->managers[work->key.manager], work->key, work, &execution, &status);
	if (fate == BALANCER_BOUND)
		note_bound(balancer, work, execution);
	else
		undo_binding(balancer, work, fate == BALANCER_LATER);
	if (fate == BALANCER_ELSEWHERE) {
		status = balancer_enqueue(balancer, work);
		fate = status ? BALANCER_FAILED : fate;
	}
	if (fate == BALANCER_FAILED)
		fail_work(balancer, work, status);
	core_object_release(&work->object);
}

static bool bind_next(struct vg_balancer *balancer)
{
	pthread_mutex_lock(&balancer->worker.lock);
	struct vg_balanced *work = balancer->worker.stopping ? NULL : pick_work(balancer);
	pthread_mutex_unlock(&balancer->worker.lock);
	if (work)
		bind_work(balancer, work);
	return work != NULL;
}

// ---- close ----------------------------------------------------------------------------------------------------

static void cancel_waiting(struct vg_balancer *balancer)
{
	pthread_mutex_lock(&balancer->worker.lock);
	for (struct balancer_queue *queue = balancer->queues; queue; queue = queue->next) {
		struct vg_balanced *work;
		while ((work = balancer_list_pop(&queue->waiting))) {
			work->info.state = VG_EXECUTION_CANCELLED;
			balancer_list_add(&balancer->ended, work);
		}
	}
	pthread_mutex_unlock(&balancer->worker.lock);
}

static struct vg_execution *find_execution_to_stop(struct vg_balancer *balancer)
{
	for (struct balancer_queue *queue = balancer->queues; queue; queue = queue->next)
		for (struct vg_balanced *work = queue->bound.first; work; work = work->next) {
			if (work->cancelled)
				continue;
			work->cancelled = true;
			balancer_retain(work->execution);
			return work->execution;
		}
	return NULL;
}

// Cancels bound work. Otherwise, closing the balancer might wait forever for work of a paused virtual GPU. Running work
// launches no more kernels, and ends when the launched kernels have ended.
static void stop_bound(struct vg_balancer *balancer)
{
	struct vg_execution *execution;

	do {
		pthread_mutex_lock(&balancer->worker.lock);
		execution = find_execution_to_stop(balancer);
		pthread_mutex_unlock(&balancer->worker.lock);
		if (execution)
			balancer_stop(execution);
		balancer_release(execution);
	} while (execution);
}

static bool has_bound(const struct vg_balancer *balancer)
{
	for (const struct balancer_queue *queue = balancer->queues; queue; queue = queue->next)
		if (queue->bound.count)
			return true;
	return false;
}

static void finish_work(struct vg_balancer *balancer)
{
	cancel_waiting(balancer);
	stop_bound(balancer);
	for (bool more = true; more;) {
		while (report_end(balancer))
			;
		pthread_mutex_lock(&balancer->worker.lock);
		while (has_bound(balancer) && !balancer->ended.count)
			pthread_cond_wait(&balancer->worker.wake, &balancer->worker.lock);
		more = has_bound(balancer) || balancer->ended.count;
		pthread_mutex_unlock(&balancer->worker.lock);
	}
	balancer_give_back(balancer);
}

static bool has_to_do(const struct vg_balancer *balancer)
{
	if (balancer->worker.stopping || balancer->ended.count)
		return true;
	for (const struct balancer_queue *queue = balancer->queues; queue; queue = queue->next)
		if (can_bind(queue))
			return true;
	return false;
}

static bool has_waiting(const struct vg_balancer *balancer)
{
	for (const struct balancer_queue *queue = balancer->queues; queue; queue = queue->next)
		if (queue->waiting.count)
			return true;
	return false;
}

// Waits for work, or until the next snapshot of the virtual GPUs is due. Returns false when the thread must end.
static bool wait_for_work(struct vg_balancer *balancer, uint64_t due)
{
	pthread_mutex_lock(&balancer->worker.lock);
	while (!has_to_do(balancer) && vg_clock_monotonic_ns() < due) {
		if (balancer->manual && !has_waiting(balancer)) // without waiting work, no snapshot is due
			pthread_cond_wait(&balancer->worker.wake, &balancer->worker.lock);
		else
			manager_worker_sleep(&balancer->worker, due);
	}
	bool stopping = balancer->worker.stopping;
	pthread_mutex_unlock(&balancer->worker.lock);
	return !stopping;
}

// Runs a round. For a manual balancer, only finds out whether paused virtual GPUs were resumed.
static void look_at_vgpus(struct vg_balancer *balancer)
{
	struct balancer_load *loads = NULL;
	enum vg_status status;
	size_t count;

	if (balancer->manual)
		status = balancer_take_snapshot(balancer, &loads, &count);
	else
		status = balancer_round(balancer, NULL);
	free(loads);
	if (status && status != VG_CLOSED && balancer->log_level >= VG_LOG_WARNING)
		vg_log(VG_LOG_WARNING, "balancer: a look at the virtual GPUs failed: %s", vg_last_error()->text);
}

void *balancer_run(void *argument)
{
	struct vg_balancer *balancer = argument;
	uint64_t interval = balancer->interval_ms * UINT64_C(1000000), due = vg_clock_monotonic_ns() + interval;

	while (wait_for_work(balancer, due)) {
		uint64_t now = vg_clock_monotonic_ns();
		while ((report_end(balancer) || bind_next(balancer)) && now < due)
			now = vg_clock_monotonic_ns();
		if (now < due)
			continue;
		look_at_vgpus(balancer);
		due += (1 + (now - due) / interval) * interval;
	}
	finish_work(balancer);
	return NULL;
}
