// A quantum on the GPU: what it waits for, what it launches, how it is known to have ended, how long it took.
//
// It begins with an event in the stream of its first kernel, behind the end of all quanta that it must not overlap, and
// ends with one behind all of its streams. Between them, marks tell of single executions: one for every so many
// microseconds of estimated work, since a mark costs as much as an empty kernel.
#include "compute/engine.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/error.h"
#include "core/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_NS = 50000, MARK_LAUNCHES = 64 };

// ---- pools ------------------------------------------------------------------------------------------

static CUresult take_event(struct vg_compute *compute, bool timing, CUevent *ret_event)
{
	if (compute->event_count[timing]) {
		*ret_event = compute->events[timing][--compute->event_count[timing]];
		return CUDA_SUCCESS;
	}
	return core_driver->cuEventCreate(ret_event, timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
}

static void give_event(struct vg_compute *compute, bool timing, CUevent event)
{
	if (!event)
		return;
	if (compute->event_count[timing] == compute->event_room[timing]) {
		unsigned room = compute->event_room[timing] ? 2 * compute->event_room[timing] : 64;
		CUevent *grown = realloc(compute->events[timing], room * sizeof *grown);
		if (!grown) {
			core_driver->cuEventDestroy_v2(event);
			return;
		}
		compute->events[timing] = grown;
		compute->event_room[timing] = room;
	}
	compute->events[timing][compute->event_count[timing]++] = event;
}

static void give_mark(struct vg_compute *compute, struct compute_mark *mark)
{
	give_event(compute, false, mark->event);
	mark->next = compute->marks;
	compute->marks = mark;
}

void compute_quantum_finish(struct vg_compute *compute)
{
	for (int timing = 0; timing < 2; timing++) {
		for (unsigned i = 0; i < compute->event_count[timing]; i++)
			core_driver->cuEventDestroy_v2(compute->events[timing][i]);
		free(compute->events[timing]);
		compute->events[timing] = NULL;
		compute->event_count[timing] = compute->event_room[timing] = 0;
	}
	while (compute->marks) {
		struct compute_mark *next = compute->marks->next;
		free(compute->marks);
		compute->marks = next;
	}
	while (compute->quantums) {
		struct compute_quantum *next = compute->quantums->next;
		free(compute->quantums);
		compute->quantums = next;
	}
}

struct compute_quantum *compute_quantum_open(struct vg_compute *compute, struct compute_lane *lane,
					     struct vg_compute_unit *unit)
{
	struct compute_quantum *quantum = compute->quantums;

	if (quantum)
		compute->quantums = quantum->next;
	else
		quantum = malloc(sizeof *quantum);
	if (!quantum)
		return NULL;
	memset(quantum, 0, sizeof *quantum);
	quantum->unit = unit;
	quantum->lane = lane;
	quantum->place = compute_place_of(unit, lane);
	quantum->place->lane = lane;
	quantum->turn = lane->turn;
	if (!lane->first)
		lane->first = quantum;
	else
		lane->last->next = quantum;
	lane->last = quantum;
	return quantum;
}

// ---- on the GPU -------------------------------------------------------------------------------------

bool compute_lanes_overlap(const struct compute_lane *lane, const struct compute_lane *other)
{
	if (lane->apart || other->apart)
		return false;
	return (lane->begin < other->end && other->begin < lane->end) || (lane->rest && other->rest);
}

// The last closed one of a lane, which all before it precede.
static struct compute_quantum *last_closed(const struct compute_lane *lane)
{
	struct compute_quantum *last = NULL;

	for (struct compute_quantum *one = lane->first; one && one->closed; one = one->next)
		last = one;
	return last;
}

static CUresult begin(struct compute_quantum *quantum, struct compute_slot *slot)
{
	struct vg_compute *compute = quantum->unit->compute;
	CUresult r = CUDA_SUCCESS;

	quantum->leader = slot;
	if (quantum->lane->apart)
		return CUDA_SUCCESS;
	for (struct compute_lane *lane = compute->lanes; lane && r == CUDA_SUCCESS; lane = lane->next) {
		struct compute_quantum *before = compute_lanes_overlap(quantum->lane, lane) ? last_closed(lane) : NULL;
		if (before && before->leader != slot)
			r = core_driver->cuStreamWaitEvent(slot->stream->handle, before->end, CU_EVENT_WAIT_DEFAULT);
	}
	if (r == CUDA_SUCCESS)
		r = take_event(compute, true, &quantum->start);
	return r ? r : core_driver->cuEventRecord(quantum->start, slot->stream->handle);
}

static bool join(struct compute_quantum *quantum, struct compute_slot *slot)
{
	CUresult r = CUDA_SUCCESS;

	if (quantum->used & 1u << slot->index)
		return true;
	if (!quantum->leader)
		r = begin(quantum, slot);
	else if (!quantum->lane->apart)
		r = core_driver->cuStreamWaitEvent(slot->stream->handle, quantum->start, CU_EVENT_WAIT_DEFAULT);
	quantum->used |= 1u << slot->index;
	if (r)
		compute_break(quantum->unit->compute, r);
	return r == CUDA_SUCCESS;
}

// What is told before its quantum ends will not know how long that was.
static void forget_time(struct compute_quantum *quantum, struct vg_execution *ends)
{
	for (; ends; ends = ends->chain) {
		ends->gpu_shared = true;
		if (quantum->only == ends)
			quantum->only = NULL;
	}
}

static bool mark_track(struct compute_quantum *quantum, unsigned index)
{
	struct vg_compute *compute = quantum->unit->compute;
	struct compute_track *track = &quantum->tracks[index];
	struct compute_mark *mark = compute->marks;
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (mark)
		compute->marks = mark->next;
	else
		mark = malloc(sizeof *mark);
	if (mark) {
		*mark = (struct compute_mark){NULL, NULL, track->ends, track->estimate, track->launches};
		forget_time(quantum, track->ends);
		r = take_event(compute, false, &mark->event);
	}
	if (r == CUDA_SUCCESS)
		r = core_driver->cuEventRecord(mark->event, quantum->place->slots[index].stream->handle);
	if (r) {
		if (mark)
			give_mark(compute, mark);
		compute_break(compute, r);
		return false;
	}
	if (track->last)
		track->last->next = mark;
	else
		track->first = mark;
	track->last = mark;
	track->ends = NULL;
	track->estimate = track->launches = 0;
	return true;
}

bool compute_quantum_mark(struct compute_quantum *quantum)
{
	bool good = true;

	for (unsigned i = 0; i < quantum->unit->slot_count && good; i++)
		if (quantum->place->slots[i].stream && (quantum->tracks[i].launches || quantum->tracks[i].ends))
			good = mark_track(quantum, i);
	return good;
}

bool compute_quantum_close(struct compute_quantum *quantum)
{
	struct vg_compute *compute = quantum->unit->compute;
	CUresult r = CUDA_SUCCESS;

	quantum->closed = true;
	if (!quantum->leader || quantum->lane->apart)
		return !quantum->leader || compute_quantum_mark(quantum); // what was refused ends without
	CUstream leader = quantum->leader->stream->handle;
	const bool alone = quantum->used == 1u << quantum->leader->index;
	// One stream's last executions end with the quantum.
	if (!alone && !compute_quantum_mark(quantum))
		return false;
	for (unsigned i = 0; i < quantum->unit->slot_count && r == CUDA_SUCCESS; i++)
		if (quantum->tracks[i].last && i != quantum->leader->index)
			r = core_driver->cuStreamWaitEvent(leader, quantum->tracks[i].last->event,
							   CU_EVENT_WAIT_DEFAULT);
	if (r == CUDA_SUCCESS)
		r = take_event(compute, true, &quantum->end);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuEventRecord(quantum->end, leader);
	if (r)
		compute_break(compute, r);
	return r == CUDA_SUCCESS;
}

// ---- launches ---------------------------------------------------------------------------------------

static void note_kind(struct compute_quantum *quantum, const struct vg_execution *execution, unsigned count)
{
	unsigned i = 0;

	while (i < quantum->kinds && quantum->kind[i].hash != execution->shape_hash)
		i++;
	if (i == COMPUTE_KINDS)
		return;
	if (i == quantum->kinds) {
		quantum->kind[i].shape = execution->shape;
		quantum->kind[i].hash = execution->shape_hash;
		quantum->kind[i].count = 0;
		quantum->kinds++;
	}
	quantum->kind[i].count += count;
}

// GPU time is an execution's own where it was alone in its quanta.
static void note_part(struct compute_quantum *quantum, struct vg_execution *execution)
{
	if (quantum->only == execution)
		return;
	if (quantum->executions++) {
		execution->gpu_shared = true;
		if (quantum->only)
			quantum->only->gpu_shared = true;
	}
	quantum->only = execution;
}

// A launch that the driver refuses fails by itself, unless the context has failed.
static bool refused(struct compute_quantum *quantum, struct vg_execution *execution, struct compute_slot *slot,
		    enum vg_status status)
{
	compute_execution_fail(execution, status);
	CUresult r = slot->stream ? core_driver->cuStreamQuery(slot->stream->handle) : CUDA_SUCCESS;
	if (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY)
		return true;
	compute_break(quantum->unit->compute, r);
	return false;
}

static enum vg_status launch_one(struct vg_execution *execution, struct compute_slot *slot, bool *ret_more)
{
	if (!execution->entry)
		return execution->job.step(execution->job.user, slot->stream, ret_more, execution->name);
	CUlaunchConfig native = execution->native;
	native.hStream = slot->stream->handle;
	native.attrs = execution->attributes;
	CUresult r = core_driver->cuLaunchKernelEx(&native, (CUfunction)execution->entry->kernel->handle,
						   execution->values, NULL);
	return r ? core_driver_failed(r, "vg_compute_unit_execute", "cuLaunchKernelEx",
				      "kernel \"%s\", grid %u x %u x %u, block %u x %u x %u", execution->name,
				      native.gridDimX, native.gridDimY, native.gridDimZ, native.blockDimX,
				      native.blockDimY, native.blockDimZ)
		 : VG_OK;
}

// The last one of a go is left to what comes behind it: the end of the quantum, or a mark.
static bool mark_when_due(struct compute_quantum *quantum, const struct compute_slot *slot, bool last)
{
	const struct compute_track *track = &quantum->tracks[slot->index];
	const bool due = track->estimate >= MARK_NS || track->launches >= MARK_LAUNCHES;

	return last || !due || mark_track(quantum, slot->index);
}

static void count_launches(struct compute_quantum *quantum, struct vg_execution *execution, unsigned done,
			   uint64_t estimate)
{
	struct compute_lane *lane = quantum->lane;

	if (!lane->launches)
		lane->progress_ns = vg_clock_monotonic_ns();
	quantum->launches += done;
	quantum->estimate += done * estimate;
	lane->launches += done;
	lane->ahead += done * estimate;
	atomic_fetch_add_explicit(&execution->launched, done, memory_order_relaxed);
	note_kind(quantum, execution, done);
	note_part(quantum, execution);
}

// Of a slot that may have no stream: what cannot be handed over ends with the quantum.
static void finish_with(struct compute_quantum *quantum, struct vg_execution *execution,
			const struct compute_slot *slot)
{
	struct compute_track *track = &quantum->tracks[slot->index];

	execution->handed = true;
	execution->chain = track->ends;
	track->ends = execution;
}

bool compute_quantum_launch(struct compute_quantum *quantum, struct vg_execution *execution, struct compute_slot *slot,
			    unsigned count, uint64_t estimate, bool last)
{
	struct compute_track *track = &quantum->tracks[slot->index];
	bool more = execution->entry != NULL, good = true;
	unsigned done = 0;

	enum vg_status status = compute_slot_ready(quantum->unit, slot, quantum->lane);
	if (status == VG_OK && !join(quantum, slot))
		return false;
	while (status == VG_OK && done < count && good && !atomic_load(&execution->cancelled)) {
		status = launch_one(execution, slot, &more);
		if (status)
			break;
		done++;
		track->launches++;
		track->estimate += estimate;
		if (done < count)
			good = mark_when_due(quantum, slot, false);
	}
	if (status && !refused(quantum, execution, slot, status))
		return false;
	count_launches(quantum, execution, done, estimate);
	if (execution->entry)
		more = atomic_load(&execution->launched) < execution->repeat;
	execution->whole = !more && !status;
	if (!more || status || atomic_load(&execution->cancelled))
		finish_with(quantum, execution, slot);
	return good && mark_when_due(quantum, slot, last);
}

// ---- what has ended ---------------------------------------------------------------------------------

static void chain_all(struct vg_execution *list, struct vg_execution **ends)
{
	while (list) {
		struct vg_execution *next = list->chain;
		list->chain = *ends;
		*ends = list;
		list = next;
	}
}

static void progress(struct compute_lane *lane, uint64_t estimate, unsigned launches)
{
	lane->ahead -= estimate < lane->ahead ? estimate : lane->ahead;
	lane->launches -= launches;
	lane->progress_ns = vg_clock_monotonic_ns();
}

// 0: not yet; 1: there; -1: the context failed.
static int reached(struct vg_compute *compute, CUevent event)
{
	CUresult r = core_driver->cuEventQuery(event);

	if (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY)
		return r == CUDA_SUCCESS;
	compute_break(compute, r);
	return -1;
}

static int reap_track(struct vg_compute *compute, struct compute_quantum *quantum, struct compute_track *track,
		      struct vg_execution **ends)
{
	int any = 0, r;

	while (track->first && (r = reached(compute, track->first->event)) != 0) {
		struct compute_mark *mark = track->first;
		if (r < 0)
			return r;
		any = 1;
		track->first = mark->next;
		if (!track->first)
			track->last = NULL;
		progress(quantum->lane, mark->estimate, mark->launches);
		chain_all(mark->ends, ends);
		give_mark(compute, mark);
	}
	return any;
}

static bool account(struct vg_compute *compute, struct compute_quantum *quantum)
{
	struct vg_execution *only = quantum->executions == 1 ? quantum->only : NULL;
	float ms = 0;

	CUresult r =
		quantum->end ? core_driver->cuEventElapsedTime_v2(&ms, quantum->start, quantum->end) : CUDA_SUCCESS;
	if (r) {
		compute_break(compute, r);
		return false;
	}
	uint64_t ns = ms > 0 ? (uint64_t)((double)ms * 1e6) : 0;
	pthread_mutex_lock(&compute->lock);
	struct vg_compute_unit *unit = quantum->unit;
	unit->in_flight_ns -= quantum->estimate < unit->in_flight_ns ? quantum->estimate : unit->in_flight_ns;
	if (quantum->end) {
		compute_policy_charge(quantum, ns);
		compute_estimate_learn(compute, quantum, ns);
	}
	if (only)
		only->gpu_ns += ns;
	unit->in_quanta--;
	if (unit->syncing)
		pthread_cond_broadcast(&unit->changed);
	pthread_mutex_unlock(&compute->lock);
	return true;
}

// Ended and accounted for: its last executions may be told, and its memory goes back.
static void retire(struct vg_compute *compute, struct compute_lane *lane, struct vg_execution **ends)
{
	struct compute_quantum *quantum = lane->first;

	for (unsigned i = 0; i < quantum->unit->slot_count; i++) {
		struct compute_track *track = &quantum->tracks[i];
		if (track->launches || track->ends)
			progress(lane, track->estimate, track->launches);
		chain_all(track->ends, ends);
	}
	give_event(compute, true, quantum->start);
	give_event(compute, true, quantum->end);
	lane->first = quantum->next;
	if (!lane->first)
		lane->last = NULL;
	quantum->next = compute->quantums;
	compute->quantums = quantum;
}

bool compute_quantum_reap(struct vg_compute *compute, struct compute_lane *lane, struct vg_execution **ends,
			  bool *ret_progress)
{
	while (lane->first) {
		struct compute_quantum *quantum = lane->first;
		bool rest = false;
		for (unsigned i = 0; i < quantum->unit->slot_count; i++) {
			int r = quantum->tracks[i].first ? reap_track(compute, quantum, &quantum->tracks[i], ends) : 0;
			if (r < 0)
				return false;
			*ret_progress |= r > 0;
			rest |= quantum->tracks[i].first != NULL;
		}
		if (rest || !quantum->closed)
			return true;
		int ended = quantum->end ? reached(compute, quantum->end) : 1;
		if (ended <= 0)
			return ended == 0;
		if (!account(compute, quantum))
			return false;
		*ret_progress = true;
		retire(compute, lane, ends);
	}
	return true;
}
