// Keeps work from its submission to its end. The balancer chooses a virtual GPU for the work meanwhile.
#include "manager/balancer_engine.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void free_work(struct core_object *object)
{
	struct vg_balanced *work = (struct vg_balanced *)object;

	if (work->argument_count)
		free(work->values[0]); // all values are in one allocation
	free(work->values);
	free(work->arguments);
	free(work->kernel);
	pthread_cond_destroy(&work->changed);
	core_object_release(&work->balancer->object);
	free(work);
}

static const struct core_class work_class = {"balanced work", NULL, free_work};

static size_t pad_size(size_t size)
{
	return (size + 15) & ~(size_t)15;
}

static enum vg_status check_work(const struct vg_balanced_work *work)
{
	if (!work->kernel || !*work->kernel)
		return vg_fail(VG_INVALID, 0, "the work names no kernel");
	if (work->config.attribute_count)
		return vg_fail(
			VG_INVALID, 0,
			"the work's launch has %u attributes of its own: they are borrowed for one call, and it is "
			"launched later",
			work->config.attribute_count);
	if (work->argument_count > BALANCER_ARGUMENTS)
		return vg_fail(VG_LIMIT, 0, "%zu arguments: at most %d", work->argument_count, BALANCER_ARGUMENTS);
	if (work->argument_count && !work->arguments)
		return vg_fail(VG_INVALID, 0, "%zu arguments at NULL", work->argument_count);
	for (size_t i = 0; i < work->argument_count; i++) {
		const struct vg_argument *argument = &work->arguments[i];
		if (!argument->size || argument->size > 1 << 16)
			return vg_fail(VG_INVALID, 0, "argument %zu has %zu bytes: 1 to 65536", i, argument->size);
		if (!argument->value && !work->bind)
			return vg_fail(VG_INVALID, 0, "argument %zu has no value, and the work no bind to fill it in",
				       i);
	}
	return VG_OK;
}

static bool copy_arguments(struct vg_balanced *copy, const struct vg_balanced_work *work)
{
	size_t count = work->argument_count, bytes = 0;

	if (!count)
		return true;
	for (size_t i = 0; i < count; i++)
		bytes += pad_size(work->arguments[i].size);
	copy->arguments = calloc(count, sizeof *copy->arguments);
	copy->values = calloc(count, sizeof *copy->values);
	char *block = calloc(1, bytes);
	if (!copy->arguments || !copy->values || !block) {
		free(block);
		return false;
	}
	copy->argument_count = count;
	for (size_t i = 0; i < count; i++) {
		const struct vg_argument *argument = &work->arguments[i];
		if (argument->value)
			memcpy(block, argument->value, argument->size);
		copy->values[i] = block;
		copy->arguments[i] = (struct vg_argument){block, argument->size};
		block += pad_size(argument->size);
	}
	return true;
}

enum vg_status balancer_work_create(struct vg_balancer *balancer, const struct vg_balanced_work *work,
				    struct vg_balanced **ret_balanced)
{
	enum vg_status status = check_work(work);

	if (status)
		return status;
	struct vg_balanced *copy = calloc(1, sizeof *copy);
	if (!copy)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a piece of work");
	core_object_init(&copy->object, &work_class);
	core_object_retain(&balancer->object);
	copy->balancer = balancer;
	manager_condition_init(&copy->changed);
	copy->config = work->config;
	copy->config.attributes = NULL;
	copy->priority = work->priority;
	copy->repeat = work->repeat;
	copy->bind = work->bind;
	copy->ended = work->ended;
	copy->user = work->user;
	copy->info.queued_ns = vg_clock_monotonic_ns();
	copy->kernel = strdup(work->kernel);
	if (!copy->kernel || !copy_arguments(copy, work)) {
		core_object_release(&copy->object);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for the arguments of a piece of work");
	}
	*ret_balanced = copy;
	return VG_OK;
}

void balancer_work_fail(struct vg_balanced *work, enum vg_status status)
{
	const struct vg_error *error = vg_last_error();

	work->info.state = VG_EXECUTION_FAILED;
	work->failure = status;
	work->failure_code = error->status == status ? error->code : 0;
	snprintf(work->failure_text, sizeof work->failure_text, "%s",
		 error->status == status ? error->text : vg_status_text(status));
}

enum vg_status vg_balanced_info(struct vg_balanced *balanced, struct vg_balanced_info *ret_info)
{
	VG_ENTRY();
	BALANCER_USABLE(balanced);
	CORE_NEEDED(ret_info);
	pthread_mutex_lock(&balanced->balancer->worker.lock);
	*ret_info = balanced->info;
	struct vg_execution *execution = balanced->execution;
	if (execution && !balanced->done && ret_info->state == VG_EXECUTION_QUEUED)
		ret_info->state = balancer_state(execution);
	pthread_mutex_unlock(&balanced->balancer->worker.lock);
	return VG_OK;
}

enum vg_execution_state vg_balanced_state(struct vg_balanced *balanced)
{
	struct vg_balanced_info info = {.state = VG_EXECUTION_COMPLETED};

	if (balanced && !core_forked)
		(void)vg_balanced_info(balanced, &info);
	return info.state;
}

// Waits until the work is done, or until `when`; 0: without a limit. Returns whether the work is done. Call with the
// lock held.
static bool wait_until(struct vg_balanced *balanced, uint64_t when)
{
	const struct timespec until = {(time_t)(when / 1000000000), (long)(when % 1000000000)};
	pthread_mutex_t *lock = &balanced->balancer->worker.lock;

	while (!balanced->done && (!when || vg_clock_monotonic_ns() < when)) {
		if (when)
			pthread_cond_timedwait(&balanced->changed, lock, &until);
		else
			pthread_cond_wait(&balanced->changed, lock);
	}
	return balanced->done;
}

enum vg_status vg_balanced_wait(struct vg_balanced *balanced, double timeout_seconds)
{
	VG_ENTRY();
	BALANCER_USABLE(balanced);
	struct vg_balancer *balancer = balanced->balancer;
	uint64_t when = 0;

	// A timeout of centuries counts as no limit.
	if (timeout_seconds > 0 && timeout_seconds < 9e9)
		when = vg_clock_monotonic_ns() + (uint64_t)(timeout_seconds * 1e9);
	pthread_mutex_lock(&balancer->worker.lock);
	bool own = manager_worker_is_self(&balancer->worker);
	bool done = own ? balanced->done : wait_until(balanced, when);
	pthread_mutex_unlock(&balancer->worker.lock);
	if (!done && own)
		return vg_fail(VG_STATE, 0, "a callback of the balancer cannot wait for its work");
	if (!done)
		return vg_fail(VG_NOT_READY, 0, "%s has not ended within %g s", balanced->kernel, timeout_seconds);
	if (balanced->info.state == VG_EXECUTION_COMPLETED)
		return VG_OK;
	if (balanced->info.state == VG_EXECUTION_CANCELLED)
		return vg_fail(VG_STATE, 0, "%s was cancelled", balanced->kernel);
	return vg_fail(balanced->failure, balanced->failure_code, "%s", balanced->failure_text);
}

enum vg_status vg_balanced_cancel(struct vg_balanced *balanced)
{
	VG_ENTRY();
	BALANCER_USABLE(balanced);
	struct vg_balancer *balancer = balanced->balancer;
	struct vg_execution *execution = NULL;

	pthread_mutex_lock(&balancer->worker.lock);
	bool ended = balanced->info.state > VG_EXECUTION_RUNNING;
	for (struct balancer_queue *queue = balancer->queues; queue && !ended; queue = queue->next) {
		if (!balancer_list_remove(&queue->waiting, balanced))
			continue;
		balanced->info.state = VG_EXECUTION_CANCELLED;
		balancer_list_add(&balancer->ended, balanced);
		pthread_cond_signal(&balancer->worker.wake);
		break;
	}
	if (!ended && balanced->info.state == VG_EXECUTION_QUEUED) {
		balanced->cancelled = true; // the balancer's thread may be binding this work now
		execution = balanced->execution;
	}
	if (execution)
		balancer_retain(execution);
	pthread_mutex_unlock(&balancer->worker.lock);
	if (ended)
		return vg_fail(VG_STATE, 0, "%s has ended", balanced->kernel);
	if (execution) {
		balancer_stop(execution);
		balancer_release(execution);
	}
	return VG_OK;
}

void vg_balanced_destroy(struct vg_balanced *balanced)
{
	if (balanced)
		core_object_release(&balanced->object);
}
