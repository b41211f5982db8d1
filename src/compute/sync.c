// Waits for a compute unit's work and finds executions. Also implements the functions of compute.h that wait for work,
// move it to another unit, or end a turn.
#include "compute/engine.h"
#include "compute/wait.h"

#include "core/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

// Returns an unfinished execution in streams `first` to `end` with an id of at most `id`, or NULL.
static const struct vg_execution *find_unfinished(const struct vg_compute_unit *unit, unsigned first, unsigned end,
						  uint64_t id)
{
	for (unsigned i = first; i < end; i++) {
		const struct vg_execution *head = unit->streams[i].head;
		if (head && head->id <= id)
			return head;
	}
	return NULL;
}

static int wait_for_change(struct vg_compute_unit *unit, uint64_t until_ns)
{
	const struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};

	return until_ns == UINT64_MAX ? pthread_cond_wait(&unit->changed, &unit->compute->lock)
				      : pthread_cond_timedwait(&unit->changed, &unit->compute->lock, &until);
}

static enum vg_status fail_not_ready(const struct vg_execution *left, double timeout)
{
	return vg_fail(VG_NOT_READY, 0, "after %g s execution %llu (\"%s\") in stream %u is %s", timeout,
		       (unsigned long long)left->id, left->name, left->stream->index,
		       atomic_load(&left->state) == VG_EXECUTION_QUEUED ? "queued" : "running");
}

static enum vg_status sync_streams(struct vg_compute_unit *unit, unsigned first, unsigned end, double timeout)
{
	struct vg_compute *compute = unit->compute;
	uint64_t until = compute_deadline(timeout);
	const struct vg_execution *left;
	int r = 0;

	pthread_mutex_lock(&compute->lock);
	uint64_t id = compute->ids;
	atomic_fetch_add(&compute->waiters, 1);
	unit->syncing++;
	while ((left = find_unfinished(unit, first, end, id)) && !unit->closing && r != ETIMEDOUT)
		r = wait_for_change(unit, until);
	unit->syncing--;
	atomic_fetch_sub(&compute->waiters, 1);
	enum vg_status status = VG_OK;
	if (unit->closing || compute->failure)
		status = compute_open_for_work(unit);
	else if (left)
		status = fail_not_ready(left, timeout);
	pthread_mutex_unlock(&compute->lock);
	return status;
}

enum vg_status vg_compute_unit_sync(struct vg_compute_unit *unit, unsigned stream, double timeout_seconds)
{
	VG_ENTRY();
	CORE_USABLE(unit, "unit");
	enum vg_status status = compute_usable();
	if (status)
		return status;
	if (stream >= unit->stream_count)
		return vg_fail(VG_INVALID, 0, "stream %u: the unit \"%s\" has %u, counted from 0", stream, unit->name,
			       unit->stream_count);
	return sync_streams(unit, stream, stream + 1, timeout_seconds);
}

enum vg_status vg_compute_unit_sync_all(struct vg_compute_unit *unit, double timeout_seconds)
{
	VG_ENTRY();
	CORE_USABLE(unit, "unit");
	enum vg_status status = compute_usable();
	return status ? status : sync_streams(unit, 0, unit->stream_count, timeout_seconds);
}

enum vg_status vg_compute_unit_find(struct vg_compute_unit *unit, uint64_t id, struct vg_execution **ret_execution)
{
	VG_ENTRY();
	struct vg_execution *found = NULL;

	CORE_USABLE(unit, "unit");
	CORE_NEEDED(ret_execution);
	enum vg_status status = compute_usable();
	if (status)
		return status;
	pthread_mutex_lock(&unit->compute->lock);
	for (unsigned i = 0; i < unit->stream_count && !found; i++)
		for (struct vg_execution *one = unit->streams[i].head; one && !found; one = one->next)
			found = one->id == id ? one : NULL;
	if (found)
		core_object_retain(&found->object);
	unsigned unfinished = unit->unfinished;
	pthread_mutex_unlock(&unit->compute->lock);
	if (!found)
		return vg_fail(VG_NOT_FOUND, 0, "no execution %llu among the %u of unit \"%s\" that have not ended",
			       (unsigned long long)id, unfinished, unit->name);
	*ret_execution = found;
	return VG_OK;
}

// ---- for other directories --------------------------------------------------------------------------------

// Retains the driver streams that have work in flight of this compute unit, and returns their number. Other units may
// own some of these streams, because work can migrate. Each virtual stream has work in at most one driver stream.
static size_t retain_streams(const struct vg_compute_unit *unit, struct vg_stream **ret_streams)
{
	size_t count = 0;

	for (unsigned i = 0; i < unit->stream_count; i++) {
		const struct compute_stream *stream = &unit->streams[i];
		struct vg_stream *one = stream->in_flight ? stream->slot->stream : NULL;
		bool known = !one;
		for (size_t k = 0; k < count && !known; k++)
			known = ret_streams[k] == one;
		if (known)
			continue;
		core_object_retain(&one->object);
		ret_streams[count++] = one;
	}
	return count;
}

static bool has_running(const struct vg_compute_unit *unit)
{
	for (unsigned i = 0; i < unit->stream_count; i++)
		for (const struct vg_execution *one = unit->streams[i].head; one; one = one->next)
			if (atomic_load(&one->state) == VG_EXECUTION_RUNNING)
				return true;
	return false;
}

enum vg_status compute_wait_for_running(struct vg_compute_unit *unit)
{
	struct vg_compute *compute = unit->compute;
	enum vg_status status = compute_usable();

	if (status)
		return status;
	pthread_mutex_lock(&compute->lock);
	atomic_fetch_add(&compute->waiters, 1);
	unit->syncing++;
	while (has_running(unit) && !unit->closing && !compute->failure)
		wait_for_change(unit, UINT64_MAX);
	unit->syncing--;
	atomic_fetch_sub(&compute->waiters, 1);
	if (unit->closing || compute->failure)
		status = compute_open_for_work(unit);
	pthread_mutex_unlock(&compute->lock);
	return status;
}

enum vg_status compute_fence(struct vg_compute_unit *unit, struct vg_stream *stream)
{
	enum vg_status status = compute_usable();
	if (status)
		return status;
	struct vg_stream **streams = calloc(unit->stream_count, sizeof(struct vg_stream *));
	if (!streams)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %u streams", unit->stream_count);
	pthread_mutex_lock(&unit->compute->lock);
	unit->compute->fences++;
	while (unit->compute->in_hand)
		pthread_cond_wait(&unit->compute->handed, &unit->compute->lock);
	unit->compute->fences--;
	size_t count = retain_streams(unit, streams);
	pthread_mutex_unlock(&unit->compute->lock);
	for (size_t i = 0; i < count; i++) {
		if (status == VG_OK)
			status = vg_stream_wait_stream(stream, streams[i]);
		vg_stream_destroy(streams[i]);
	}
	free(streams);
	return status;
}

// Returns the newest queued execution that the compute unit itself runs. `at` has the current position in each stream,
// which moves from the end of the stream to its start.
static struct vg_execution *find_next_to_migrate(const struct vg_compute_unit *from, struct vg_execution **at)
{
	struct vg_execution *newest = NULL;

	for (unsigned i = 0; i < from->stream_count; i++) {
		while (at[i] && (at[i]->runner != from || atomic_load(&at[i]->state) != VG_EXECUTION_QUEUED))
			at[i] = at[i]->previous;
		if (at[i] && (!newest || at[i]->id > newest->id))
			newest = at[i];
	}
	return newest;
}

enum vg_status compute_migrate(struct vg_compute_unit *from, struct vg_compute_unit *to, size_t count,
			       size_t *ret_moved)
{
	struct vg_execution *newest;
	size_t moved = 0;

	if (from->compute != to->compute)
		return vg_fail(VG_INVALID, 0, "the units \"%s\" and \"%s\" are of different schedulers", from->name,
			       to->name);
	struct vg_compute *compute = from->compute;
	enum vg_status status = compute_usable();
	if (status)
		return status;
	struct vg_execution **at = calloc(from->stream_count, sizeof(struct vg_execution *));
	if (!at)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %u streams", from->stream_count);
	pthread_mutex_lock(&compute->lock);
	for (unsigned i = 0; i < from->stream_count; i++)
		at[i] = from->streams[i].tail;
	status = compute_open_for_work(to);
	while (status == VG_OK && moved < count && from != to && (newest = find_next_to_migrate(from, at))) {
		compute_queue_hand(newest, to);
		moved++;
	}
	pthread_mutex_unlock(&compute->lock);
	free(at);
	compute_ring(compute, COMPUTE_RING_ALWAYS);
	if (status == VG_OK)
		*ret_moved = moved;
	return status;
}

enum vg_status compute_preempt(struct vg_compute_unit *unit, bool *ret_preempted)
{
	enum vg_status status = compute_usable();

	if (status)
		return status;
	pthread_mutex_lock(&unit->compute->lock);
	*ret_preempted = unit->in_quanta > 0 && unit->ready;
	unit->preempted = *ret_preempted;
	pthread_mutex_unlock(&unit->compute->lock);
	compute_ring(unit->compute, COMPUTE_RING_ALWAYS);
	return VG_OK;
}
