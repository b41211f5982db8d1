// Keeps the executions of each virtual stream in order. Each compute unit has a queue of streams (`ready`): those whose
// next execution this unit runs.
#include "compute/quantum.h"

#include "base/clock.h"

#include <limits.h>

// A compute unit keeps its unused GPU time over gaps between submissions that are shorter than IDLE_MS.
enum { IDLE_MS = 10 };

static void unlink_ready(struct compute_stream *stream)
{
	struct vg_compute_unit *unit = stream->ready;

	if (!unit)
		return;
	if (stream->ready_previous)
		stream->ready_previous->ready_next = stream->ready_next;
	else
		unit->ready = stream->ready_next;
	if (stream->ready_next)
		stream->ready_next->ready_previous = stream->ready_previous;
	stream->ready = NULL;
	compute_queue_note_idle(unit);
}

// Ends an idle period. A compute unit must not save up GPU time while it is idle or paused. So its virtual time (GPU
// time divided by its share) becomes at least the least one of the busy units.
static void end_idle(struct vg_compute_unit *unit)
{
	struct vg_compute *compute = unit->compute;

	if (!unit->idle_since || unit->paused)
		return;
	if (vg_clock_monotonic_ns() - unit->idle_since > IDLE_MS * COMPUTE_MS &&
	    unit->virtual_time < compute_policy_start(compute))
		unit->virtual_time = compute_policy_start(compute);
	unit->idle_since = 0;
}

static void link_ready(struct compute_stream *stream, struct vg_compute_unit *unit)
{
	end_idle(unit);
	stream->ready = unit;
	stream->ready_previous = NULL;
	stream->ready_next = unit->ready;
	if (unit->ready)
		unit->ready->ready_previous = stream;
	unit->ready = stream;
}

void compute_queue_note_idle(struct vg_compute_unit *unit)
{
	if ((!unit->ready || unit->paused) && !unit->running && !unit->idle_since)
		unit->idle_since = vg_clock_monotonic_ns();
}

void compute_queue_hand(struct vg_execution *execution, struct vg_compute_unit *runner)
{
	const bool queued = atomic_load(&execution->state) == VG_EXECUTION_QUEUED;

	(*(queued ? &execution->runner->queued : &execution->runner->running))--;
	(*(queued ? &runner->queued : &runner->running))++;
	execution->runner = runner;
	compute_queue_refresh(execution->stream);
}

void compute_queue_give_back(struct vg_compute_unit *unit)
{
	for (struct vg_compute_unit *other = unit->compute->units; other; other = other->next) {
		for (unsigned i = 0; other != unit && i < other->stream_count; i++) {
			const struct compute_stream *stream = &other->streams[i];
			for (struct vg_execution *one = stream->in_hand ? NULL : stream->next; one; one = one->next)
				if (one->runner == unit)
					compute_queue_hand(one, other);
		}
	}
}

void compute_queue_pause(struct vg_compute_unit *unit, bool paused)
{
	unit->paused = paused;
	for (unsigned i = 0; paused && i < unit->stream_count; i++)
		for (struct vg_execution *one = unit->streams[i].head; one; one = one->next)
			if (one->runner != unit && atomic_load(&one->state) == VG_EXECUTION_QUEUED)
				compute_queue_hand(one, unit);
	if (unit->ready)
		end_idle(unit);
	compute_queue_note_idle(unit);
}

void compute_queue_refresh(struct compute_stream *stream)
{
	struct vg_compute_unit *runner = stream->next ? stream->next->runner : NULL;

	if (stream->ready == runner)
		return;
	unlink_ready(stream);
	if (runner)
		link_ready(stream, runner);
}

void compute_queue_add(struct vg_execution *execution)
{
	struct compute_stream *stream = execution->stream;

	execution->previous = stream->tail;
	execution->next = NULL;
	if (stream->tail)
		stream->tail->next = execution;
	else
		stream->head = execution;
	stream->tail = execution;
	if (!stream->next)
		stream->next = execution;
	execution->runner->queued++;
	execution->origin->unfinished++;
	compute_queue_refresh(stream);
}

void compute_queue_remove(struct vg_execution *execution)
{
	struct compute_stream *stream = execution->stream;

	if (stream->next == execution)
		stream->next = execution->next;
	if (execution->previous)
		execution->previous->next = execution->next;
	else
		stream->head = execution->next;
	if (execution->next)
		execution->next->previous = execution->previous;
	else
		stream->tail = execution->previous;
	execution->previous = execution->next = NULL;
	compute_queue_refresh(stream);
}

static bool may_launch(const struct compute_stream *stream, const struct vg_compute_unit *unit,
		       const struct compute_lane *lane)
{
	if (stream->in_hand)
		return false;
	// If the stream has work in flight in another lane (`before`), its next work must not overtake that work. So
	// `lane` may launch the next work only if quanta of the two lanes cannot run at the same time.
	const struct compute_lane *before = stream->in_flight ? stream->slot->place->lane : NULL;
	if (before && before != lane && !compute_lanes_overlap(before, lane))
		return false;
	return !unit->paused ||
	       atomic_load_explicit(&stream->next->state, memory_order_relaxed) == VG_EXECUTION_RUNNING;
}

struct vg_execution *compute_queue_peek(struct vg_compute_unit *unit, const struct compute_lane *lane)
{
	struct vg_execution *best = NULL;

	for (struct compute_stream *stream = unit->ready; stream; stream = stream->ready_next) {
		struct vg_execution *next = stream->next;
		if (!may_launch(stream, unit, lane))
			continue;
		if (atomic_load_explicit(&next->cancelled, memory_order_relaxed))
			// Take cancelled work first: it uses no GPU time, and a thread may wait for its end.
			return next;
		if (!best || next->priority > best->priority ||
		    (next->priority == best->priority && next->id < best->id))
			best = next;
	}
	return best;
}

int compute_queue_priority(const struct vg_compute_unit *unit)
{
	int most = 0;
	bool any = false;

	for (const struct compute_stream *stream = unit->ready; stream; stream = stream->ready_next) {
		if (!any || stream->next->priority > most)
			most = stream->next->priority;
		any = true;
	}
	long long both = (long long)unit->priority + most;
	return both > INT_MAX ? INT_MAX : both < INT_MIN ? INT_MIN : (int)both;
}

void compute_queue_cancel_all(struct vg_compute_unit *unit)
{
	for (unsigned i = 0; i < unit->stream_count; i++) {
		struct vg_execution *next;
		for (struct vg_execution *one = unit->streams[i].head; one; one = next) {
			next = one->next;
			if (atomic_load(&one->state) == VG_EXECUTION_QUEUED)
				compute_execution_end(one, VG_EXECUTION_CANCELLED);
			else
				atomic_store(&one->cancelled, true);
		}
	}
}
