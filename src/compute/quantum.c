// Runs a quantum on the GPU: starts it, launches its work, ends it and measures its duration. A quantum begins with an
// event in the stream of its first kernel, after the end of all quanta that it must not overlap. It ends with an event
// after all of its streams. Marks (events in between) show which executions have ended. One mark covers some
// microseconds of estimated work, because a mark costs as much as an empty kernel.
#include "compute/quantum.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/error.h"
#include "core/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_NS = 50000, MARK_LAUNCHES = 64 };

struct compute_quantum *compute_quantum_open(struct vg_compute *compute, struct compute_lane *lane,
					     struct vg_compute_unit *unit)
{
	struct compute_quantum *quantum = compute->quantums;

	if (quantum)
		compute->quantums = quantum->next;
	else
		quantum = malloc(sizeof *quantum);
	if (!quantum) {
		compute->starved = true;
		return NULL;
	}
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

// Returns the last closed quantum of a lane; all earlier ones end before it. A quantum that submitted nothing has no
// end event.
static struct compute_quantum *find_last_closed(const struct compute_lane *lane)
{
	struct compute_quantum *last = NULL;

	for (struct compute_quantum *one = lane->first; one && one->closed; one = one->next)
		last = one->end ? one : last;
	return last;
}

static CUresult begin_on_gpu(struct compute_quantum *quantum, struct compute_slot *slot)
{
	struct vg_compute *compute = quantum->unit->compute;
	CUresult r = CUDA_SUCCESS;

	for (struct compute_lane *lane = compute->lanes; lane && r == CUDA_SUCCESS; lane = lane->next) {
		struct compute_quantum *before =
			compute_lanes_overlap(quantum->lane, lane) ? find_last_closed(lane) : NULL;
		if (before && before->leader != slot)
			r = core_driver->cuStreamWaitEvent(slot->stream->handle, before->end, CU_EVENT_WAIT_DEFAULT);
	}
	if (r)
		return r;
	r = compute_event_acquire(compute, true, &quantum->start);
	if (r)
		goto fail;
	r = compute_event_acquire(compute, true, &quantum->end);
	if (r)
		goto fail;
	r = core_driver->cuEventRecord(quantum->start, slot->stream->handle);
	if (r)
		goto fail;
	return CUDA_SUCCESS;
fail:
	compute_event_release(compute, true, quantum->start);
	compute_event_release(compute, true, quantum->end);
	quantum->start = quantum->end = NULL;
	return r;
}

static CUresult join_slot(struct compute_quantum *quantum, struct compute_slot *slot)
{
	CUresult r = CUDA_SUCCESS;

	if (quantum->used & 1u << slot->index)
		return CUDA_SUCCESS;
	if (!quantum->lane->apart)
		r = quantum->leader ? core_driver->cuStreamWaitEvent(slot->stream->handle, quantum->start,
								     CU_EVENT_WAIT_DEFAULT)
				    : begin_on_gpu(quantum, slot);
	if (r)
		return r;
	quantum->leader = quantum->leader ? quantum->leader : slot;
	quantum->used |= 1u << slot->index;
	return CUDA_SUCCESS;
}

// Allocates everything that is needed to detect the end of a launch. Call before the launch.
static enum vg_status prepare_launch(struct compute_quantum *quantum, const struct vg_execution *execution,
				     struct compute_slot *slot)
{
	struct compute_track *track = &quantum->tracks[slot->index];

	enum vg_status status = compute_slot_ready(quantum->unit, slot, quantum->lane);
	if (status)
		return status;
	CUresult r = track->spare ? CUDA_SUCCESS : compute_mark_acquire(quantum->unit->compute, &track->spare);
	if (r == CUDA_SUCCESS)
		r = join_slot(quantum, slot);
	return r ? core_driver_failed(r, "cuEventCreate", "before kernel \"%s\"", execution->name) : VG_OK;
}

// Sets the GPU time of the executions in the list `ends` to unknown. They end at a mark before the end of the quantum,
// and only the time of the whole quantum is measured.
static void forget_time(struct compute_quantum *quantum, struct vg_execution *ends)
{
	for (; ends; ends = ends->chain) {
		ends->gpu_shared = true;
		if (quantum->only == ends)
			quantum->only = NULL;
	}
}

// Records a mark, which shows when the work that was launched so far has ended. If no mark can be allocated: uses the
// spare mark if `needed`, else records none. Returns false if the context failed.
static bool mark_track(struct compute_quantum *quantum, unsigned index, bool needed)
{
	struct vg_compute *compute = quantum->unit->compute;
	struct compute_track *track = &quantum->tracks[index];
	struct compute_mark *mark = NULL;

	if (compute_mark_acquire(compute, &mark) && needed) {
		mark = track->spare;
		track->spare = NULL;
	}
	if (!mark)
		return true;
	CUresult r = core_driver->cuEventRecord(mark->event, quantum->place->slots[index].stream->handle);
	if (r) {
		compute_mark_release(compute, mark);
		compute_break(compute, r);
		return false;
	}
	mark->ends = track->ends;
	mark->estimate = track->estimate;
	mark->launches = track->launches;
	forget_time(quantum, track->ends);
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
			good = mark_track(quantum, i, true);
	return good;
}

bool compute_quantum_close(struct compute_quantum *quantum)
{
	struct vg_compute *compute = quantum->unit->compute;
	CUresult r = CUDA_SUCCESS;

	quantum->closed = true;
	if (!quantum->leader || quantum->lane->apart)
		return !quantum->leader || compute_quantum_mark(quantum); // without launches, no mark is needed
	CUstream leader = quantum->leader->stream->handle;
	const bool alone = quantum->used == 1u << quantum->leader->index;
	// If the quantum uses several driver streams, record a mark in each of them. A single stream needs no mark,
	// because the end event of the quantum shows when its last executions have ended.
	if (!alone && !compute_quantum_mark(quantum))
		return false;
	for (unsigned i = 0; i < quantum->unit->slot_count && r == CUDA_SUCCESS; i++)
		if (quantum->tracks[i].last && i != quantum->leader->index)
			r = core_driver->cuStreamWaitEvent(leader, quantum->tracks[i].last->event,
							   CU_EVENT_WAIT_DEFAULT);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuEventRecord(quantum->end, leader);
	if (r)
		compute_break(compute, r);
	return r == CUDA_SUCCESS;
}

// ---- launches ---------------------------------------------------------------------------------------

static void note_kind(struct compute_quantum *quantum, const struct vg_execution *execution)
{
	unsigned i = 0;

	while (i < quantum->kinds && quantum->kind[i] != execution->shape)
		i++;
	if (i == quantum->kinds && i < COMPUTE_KINDS)
		quantum->kind[quantum->kinds++] = execution->shape;
}

// Notes that the execution has work in this quantum. If another execution has work there, too, the GPU time of both is
// unknown.
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

// Handles a failed launch. Returns true if only this execution fails, false if the context has failed.
static bool handle_refusal(struct compute_quantum *quantum, struct vg_execution *execution, struct compute_slot *slot,
			   enum vg_status status)
{
	CUresult r = core_driver->cuStreamQuery(slot->stream ? slot->stream->handle : CU_STREAM_PER_THREAD);
	if (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY) {
		compute_execution_fail(execution, status);
		return true;
	}
	compute_break(quantum->unit->compute, r);
	return false;
}

static enum vg_status launch_one(struct vg_execution *execution, struct compute_slot *slot, bool *ret_more)
{
	if (!execution->entry)
		return execution->job.step(execution->job.user, slot->stream, ret_more);
	CUlaunchConfig native = execution->native;
	native.hStream = slot->stream->handle;
	native.attrs = execution->attributes;
	CUresult r = core_driver->cuLaunchKernelEx(&native, (CUfunction)execution->entry->kernel->handle,
						   execution->values, NULL);
	return r ? core_driver_failed(r, "cuLaunchKernelEx", "kernel \"%s\", grid %u x %u x %u, block %u x %u x %u",
				      execution->name, native.gridDimX, native.gridDimY, native.gridDimZ,
				      native.blockDimX, native.blockDimY, native.blockDimZ)
		 : VG_OK;
}

// Records a mark if enough work was launched since the last one. The last launch needs none, because the end of the
// quantum or another mark follows. Returns false if the context failed.
static bool mark_when_due(struct compute_quantum *quantum, const struct compute_slot *slot, bool last)
{
	const struct compute_track *track = &quantum->tracks[slot->index];
	const bool due = track->estimate >= MARK_NS || track->launches >= MARK_LAUNCHES;

	return last || !due || mark_track(quantum, slot->index, false);
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
	if (done)
		note_kind(quantum, execution);
	note_part(quantum, execution);
}

// Adds the execution to those that end with the last work of the driver stream. The stream is missing if its creation
// failed, but its index is valid even then.
static void end_with_track(struct compute_quantum *quantum, struct vg_execution *execution,
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

	enum vg_status status = prepare_launch(quantum, execution, slot);
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
	if (status && !handle_refusal(quantum, execution, slot, status))
		return false;
	count_launches(quantum, execution, done, estimate);
	if (execution->entry)
		more = atomic_load(&execution->launched) < execution->repeat;
	execution->whole = !more && !status;
	if (!more || status || atomic_load(&execution->cancelled))
		end_with_track(quantum, execution, slot);
	return good && mark_when_due(quantum, slot, last);
}
