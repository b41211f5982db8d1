// What of the quanta has ended on the GPU, and how long they took there.
#include "compute/quantum.h"

#include "base/clock.h"
#include "core/core.h"

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
		compute_mark_give(compute, mark);
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
		compute_mark_give(compute, track->spare);
	}
	compute_event_give(compute, true, quantum->start);
	compute_event_give(compute, true, quantum->end);
	lane->first = quantum->next;
	if (!lane->first)
		lane->last = NULL;
	quantum->next = compute->quantums;
	compute->quantums = quantum;
}

bool compute_reap(struct vg_compute *compute, struct compute_lane *lane, struct vg_execution **ends, bool *ret_progress)
{
	while (lane->first) {
		struct compute_quantum *quantum = lane->first;
		bool rest = false;
		for (unsigned i = 0; i < quantum->unit->slot_count; i++) {
			struct compute_track *track = &quantum->tracks[i];
			int r = track->first ? reap_track(compute, quantum, track, ends) : 0;
			if (r < 0)
				return false;
			*ret_progress |= r > 0;
			rest |= track->first != NULL;
			if (lane->apart && !track->first && !track->launches &&
			    track->ends) { // nothing reached the GPU
				chain_all(track->ends, ends);
				track->ends = NULL;
				*ret_progress = true;
			}
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
