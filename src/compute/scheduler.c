// The scheduler's thread: looks what has ended, hands over what comes next, sleeps.
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
	SPIN_US = 30,	// after the last thing that happened
	NAP_US = 25,	// the shortest
	WAITED_US = 50, // the longest while somebody waits for an execution
	NAP_MOST_US = 1000,
	AWAKE = 0,
	NAPPING = 1, // work is on its way: a submission need not wake us
	ASLEEP = 2
};

void compute_ring(struct vg_compute *compute, bool also_napping)
{
	atomic_fetch_add(&compute->bell, 1);
	if (atomic_load(&compute->asleep) >= (also_napping ? NAPPING : ASLEEP))
		compute_wake(&compute->bell);
}

// ---- the context's end ------------------------------------------------------------------------------

static void fail_all(struct vg_compute *compute, struct vg_compute_unit *unit)
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
			compute_mark_give(compute, mark);
		}
		compute_mark_give(compute, quantum->tracks[i].spare);
	}
	compute_event_give(compute, true, quantum->start);
	compute_event_give(compute, true, quantum->end);
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

static void break_all(struct vg_compute *compute)
{
	drop_quanta(compute);
	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next) {
		fail_all(compute, unit);
		pthread_cond_broadcast(&unit->changed);
	}
}

// ---- what has ended ---------------------------------------------------------------------------------

static void end_all(struct vg_execution *ends)
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

// Under the lock, which is given back meanwhile. Until a look at all lanes finds nothing new: what ended in one of them
// may have begun in another one, whose quantum must not be left to count the time of what is gone.
static bool reap(struct vg_compute *compute)
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
	end_all(ends);
	return progress;
}

// ---- sleep ------------------------------------------------------------------------------------------

// How long until something is likely to end; 0: nothing is on its way.
static uint64_t nap_of(struct vg_compute *compute)
{
	uint64_t shortest = UINT64_MAX, now = vg_clock_monotonic_ns();

	for (struct compute_lane *lane = compute->lanes; lane; lane = lane->next) {
		if (!lane->first || !lane->launches)
			continue;
		uint64_t gone = now - lane->progress_ns, each = lane->ahead / lane->launches;
		// Half of what is left; beyond that, the longer the estimate was wrong the less it is looked at.
		uint64_t nap = gone < each && !lane->first->guessed ? (each - gone) / 2 : gone / 8;
		if (nap < shortest)
			shortest = nap;
	}
	if (shortest == UINT64_MAX)
		return 0;
	uint64_t most = (atomic_load(&compute->waiters) ? WAITED_US : NAP_MOST_US) * 1000ull;
	return shortest < NAP_US * 1000 ? NAP_US * 1000 : shortest < most ? shortest : most;
}

static bool in_flight(const struct vg_compute *compute)
{
	for (const struct compute_lane *lane = compute->lanes; lane; lane = lane->next)
		if (lane->first && !(lane->apart && !lane->launches && !lane->first->closed))
			return true;
	return false;
}

static void rest(struct vg_compute *compute, unsigned bell, uint64_t busy_ns)
{
	uint64_t now = vg_clock_monotonic_ns();

	if (now - busy_ns < SPIN_US * 1000)
		return;
	bool flying = in_flight(compute);
	uint64_t nap = flying ? nap_of(compute) : 0;
	if (flying && !nap)
		nap = NAP_US * 1000;
	if (compute->starved) // there may be memory again
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
	bool told = false;
	CORE_RELAXED relaxed = core_relax(); // what the program captures is none of this thread's business

	prctl(PR_SET_NAME, "vg-compute");
	prctl(PR_SET_TIMERSLACK, 1000); // naps are of some microseconds
	core_driver->cuCtxSetCurrent(compute->context->handle);
	for (;;) {
		unsigned bell = atomic_load(&compute->bell);
		compute->starved = false;
		pthread_mutex_lock(&compute->lock);
		bool any = compute->failure ? false : reap(compute);
		compute_turns_look(compute, any);
		compute_units_settle(compute);
		compute_group(compute);
		for (struct compute_lane *lane = compute->lanes; lane && !compute->failure; lane = lane->next)
			any |= compute_feed(compute, lane);
		if (compute->failure) {
			break_all(compute);
			compute_units_settle(compute);
		}
		compute_samples_roll(compute);
		bool leave = compute->stopping && !in_flight(compute), failed = compute->failure;
		compute_unlock(compute);
		if (failed && !told) // the text does not change
			vg_log(VG_LOG_ERROR, "compute: device %d: %s", compute->device->ordinal, compute->failure_text);
		told = failed;
		if (leave)
			break;
		if (any)
			busy_ns = vg_clock_monotonic_ns();
		else
			rest(compute, bell, busy_ns);
	}
	compute_pools_finish(compute);
	core_driver->cuCtxSetCurrent(NULL);
	return NULL;
}
