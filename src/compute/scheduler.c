// Runs the scheduler's thread, which detects ended work, submits the next work, and sleeps.
#include "compute/quantum.h"
#include "compute/turn.h"
#include "compute/wait.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/scope.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum {
	SPIN_US = 30,	// how long the thread polls after work has ended or was submitted
	NAP_US = 25,	// shortest sleep
	WAITED_US = 50, // longest sleep while a thread waits for an execution
	NAP_MOST_US = 1000,
	AWAKE = 0,
	NAPPING = 1, // the thread sleeps for a short time while work is in flight, so a submission need not wake it
	ASLEEP = 2
};

void compute_ring(struct vg_compute *compute, enum compute_ring ring)
{
	atomic_fetch_add(&compute->bell, 1);
	if (atomic_load(&compute->asleep) >= (ring == COMPUTE_RING_ALWAYS ? NAPPING : ASLEEP))
		compute_wake(&compute->bell);
}

// ---- failure of the context -------------------------------------------------------------------------

static void fail_work(struct vg_compute *compute, struct vg_compute_unit *unit)
{
	for (unsigned i = 0; i < unit->stream_count; i++) {
		while (unit->streams[i].head) {
			struct vg_execution *one = unit->streams[i].head;
			if (!one->failure) {
				one->failure = VG_DRIVER;
				one->failure_code = compute->failure;
				one->failure_text = strdup(compute->failure_text);
			}
			unit->streams[i].in_hand = false;
			compute_execution_end(one, VG_EXECUTION_FAILED);
		}
		unit->streams[i].in_flight = 0;
	}
}

static void drop_quantum(struct vg_compute *compute, struct compute_quantum *quantum)
{
	for (unsigned i = 0; i < COMPUTE_SLOTS; i++) {
		while (quantum->tracks[i].first) {
			struct compute_mark *mark = quantum->tracks[i].first;
			quantum->tracks[i].first = mark->next;
			compute_mark_release(compute, mark);
		}
		compute_mark_release(compute, quantum->tracks[i].spare);
	}
	compute_event_release(compute, true, quantum->start);
	compute_event_release(compute, true, quantum->end);
	quantum->unit->in_quanta--;
	quantum->next = compute->quantums;
	compute->quantums = quantum;
}

static void drop_quanta(struct vg_compute *compute)
{
	for (struct compute_lane *lane = compute->lanes; lane; lane = lane->next) {
		while (lane->first) {
			struct compute_quantum *next = lane->first->next;
			drop_quantum(compute, lane->first);
			lane->first = next;
		}
		lane->last = NULL;
		lane->ahead = lane->launches = 0;
	}
}

static void fail_units(struct vg_compute *compute)
{
	drop_quanta(compute);
	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next) {
		fail_work(compute, unit);
		pthread_cond_broadcast(&unit->changed);
	}
}

// ---- ended work -------------------------------------------------------------------------------------

static void end_executions(struct vg_execution *ends)
{
	while (ends) {
		struct vg_execution *next = ends->chain;
		struct compute_stream *stream = ends->stream;
		enum vg_execution_state state = VG_EXECUTION_COMPLETED;

		if (ends->failure)
			state = VG_EXECUTION_FAILED;
		else if (!ends->whole)
			state = VG_EXECUTION_CANCELLED;
		if (--stream->in_flight == 0)
			compute_slot_leave(stream->slot);
		compute_execution_end(ends, state);
		ends = next;
	}
}

// Ends executions that the GPU has completed, and returns whether there were any. With SM groups, the end of work in
// one lane lets work in another lane start on the GPU. That work may have ended too, so this function checks the lanes
// until no more work has ended. Otherwise an open quantum would count the idle time after its work as GPU time. Call
// with the lock held; the function unlocks it for a while.
static bool reap_lanes(struct vg_compute *compute)
{
	struct vg_execution *ends = NULL;
	bool progress = false, good = true, more = true;

	pthread_mutex_unlock(&compute->lock);
	while (more && good) {
		more = false;
		for (struct compute_lane *lane = compute->lanes; lane && good; lane = lane->next)
			good = compute_reap(compute, lane, &ends, &more);
		progress |= more;
		more &= compute->grouping;
	}
	pthread_mutex_lock(&compute->lock);
	end_executions(ends);
	return progress;
}

// ---- sleep ------------------------------------------------------------------------------------------

// Returns how long the scheduler's thread sleeps before it checks again whether work has ended; 0: no work is in
// flight.
static uint64_t compute_nap(struct vg_compute *compute)
{
	uint64_t shortest = UINT64_MAX, now = vg_clock_monotonic_ns();

	for (struct compute_lane *lane = compute->lanes; lane; lane = lane->next) {
		if (!lane->first || !lane->launches)
			continue;
		uint64_t gone = now - lane->progress_ns, each = lane->ahead / lane->launches;
		// Sleep for half of the time that the work should still take. If it already takes longer than
		// estimated, sleep for an eighth of the time that it has taken.
		uint64_t nap = gone < each && !lane->first->guessed ? (each - gone) / 2 : gone / 8;
		if (nap < shortest)
			shortest = nap;
	}
	if (shortest == UINT64_MAX)
		return 0;
	uint64_t most = (atomic_load(&compute->waiters) ? WAITED_US : NAP_MOST_US) * 1000ull;
	return shortest < NAP_US * 1000 ? NAP_US * 1000 : shortest < most ? shortest : most;
}

// Returns whether the quantum has a mark that the GPU has not reached yet. Such a mark may be without launches: it then
// ends executions that were cancelled.
static bool has_marks(const struct compute_quantum *quantum)
{
	for (unsigned i = 0; i < quantum->unit->slot_count; i++)
		if (quantum->tracks[i].first)
			return true;
	return false;
}

static bool has_work_in_flight(const struct vg_compute *compute)
{
	for (const struct compute_lane *lane = compute->lanes; lane; lane = lane->next)
		if (lane->first && (!lane->apart || lane->launches || lane->first->closed || has_marks(lane->first)))
			return true;
	return false;
}

static void sleep_or_spin(struct vg_compute *compute, unsigned bell, uint64_t busy_ns)
{
	uint64_t now = vg_clock_monotonic_ns();

	if (now - busy_ns < SPIN_US * 1000)
		return;
	bool flying = has_work_in_flight(compute);
	uint64_t nap = flying ? compute_nap(compute) : 0;
	if (flying && !nap)
		nap = NAP_US * 1000;
	if (compute->starved) // try again soon, because memory may be free by then
		nap = flying ? nap : NAP_MOST_US * 1000;
	bool light = flying && !compute->preemption && !compute->lanes->next;
	atomic_store(&compute->asleep, light ? NAPPING : ASLEEP);
	if (!compute_turns_sleep(compute, bell, now, nap) && atomic_load(&compute->bell) == bell)
		compute_wait(&compute->bell, bell, nap ? now + nap : UINT64_MAX);
	atomic_store(&compute->asleep, AWAKE);
}

void *compute_thread(void *argument)
{
	struct vg_compute *compute = argument;
	uint64_t busy_ns = vg_clock_monotonic_ns();
	bool logged = false;
	CORE_RELAXED relaxed = core_relax(); // stream captures of the program's threads do not affect this thread

	prctl(PR_SET_NAME, "vg-compute");
	prctl(PR_SET_TIMERSLACK, 1000); // needed for sleeps of some microseconds
	core_driver->cuCtxSetCurrent(compute->context->handle);
	for (;;) {
		unsigned bell = atomic_load(&compute->bell);
		compute->starved = false;
		pthread_mutex_lock(&compute->lock);
		bool any = compute->failure ? false : reap_lanes(compute);
		compute_turns_look(compute, any);
		compute_units_update(compute);
		compute_group(compute);
		for (struct compute_lane *lane = compute->lanes; lane && !compute->failure; lane = lane->next)
			any |= compute_feed(compute, lane);
		if (compute->failure) {
			fail_units(compute);
			compute_units_update(compute);
		}
		compute_samples_roll(compute);
		bool leave = compute->stopping && !has_work_in_flight(compute), failed = compute->failure;
		compute_unlock(compute);
		if (failed && !logged) // `failure_text` does not change once `failed` is set
			vg_log(VG_LOG_ERROR, "compute: device %d: %s", compute->device->ordinal, compute->failure_text);
		logged = failed;
		if (leave)
			break;
		if (any)
			busy_ns = vg_clock_monotonic_ns();
		else
			sleep_or_spin(compute, bell, busy_ns);
	}
	compute_pools_finish(compute);
	core_driver->cuCtxSetCurrent(NULL);
	return NULL;
}
