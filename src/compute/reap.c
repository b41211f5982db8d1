// Finds out which launches and quanta have ended on the GPU, and how long the quanta took.
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

static void record_progress(struct compute_lane *lane, uint64_t estimate, unsigned launches)
{
	lane->ahead -= estimate < lane->ahead ? estimate : lane->ahead;
	lane->launches -= launches;
	lane->progress_ns = vg_clock_monotonic_ns();
}

// Returns 1 if the event has completed, 0 if it has not, and -1 if the context failed.
static int query_event(struct vg_compute *compute, CUevent event)
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

	while (track->first && (r = query_event(compute, track->first->event)) != 0) {
		struct compute_mark *mark = track->first;
		if (r < 0)
			return r;
		any = 1;
		track->first = mark->next;
		if (!track->first)
			track->last = NULL;
		record_progress(quantum->lane, mark->estimate, mark->launches);
		chain_all(mark->ends, ends);
		compute_mark_release(compute, mark);
	}
	return any;
}

static bool charge_quantum(struct vg_compute *compute, struct compute_quantum *quantum)
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

// Removes a quantum that has ended and whose time was charged: ends its last executions, and frees its memory.
static void retire_quantum(struct vg_compute *compute, struct compute_lane *lane, struct vg_execution **ends)
{
	struct compute_quantum *quantum = lane->first;

	for (unsigned i = 0; i < quantum->unit->slot_count; i++) {
		struct compute_track *track = &quantum->tracks[i];
		if (track->launches || track->ends)
			record_progress(lane, track->estimate, track->launches);
		chain_all(track->ends, ends);
		compute_mark_release(compute, track->spare);
	}
	compute_event_release(compute, true, quantum->start);
	compute_event_release(compute, true, quantum->end);
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
			    track->ends) { // the launch did not reach the GPU, so its executions end now
				chain_all(track->ends, ends);
				track->ends = NULL;
				*ret_progress = true;
			}
		}
		if (rest || !quantum->closed)
			return true;
		int ended = quantum->end ? query_event(compute, quantum->end) : 1;
		if (ended <= 0)
			return ended == 0;
		if (!charge_quantum(compute, quantum))
			return false;
		*ret_progress = true;
		retire_quantum(compute, lane, ends);
	}
	return true;
}
