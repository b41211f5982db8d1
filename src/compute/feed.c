// Moves work from the queues to the GPU. Keeps only some milliseconds of work in flight, so that the next compute unit
// can be chosen as late as possible.
#include "compute/quantum.h"
#include "compute/turn.h"

#include "base/clock.h"

enum {
	QUANTUM_MS = 4,	   // length of a quantum while other compute units wait
	ALONE_MS = 20,	   // length of a quantum while no other compute unit waits
	AHEAD_US = 4000,   // maximum estimated time of the work in flight
	PREEMPT_US = 500,  // the same with preemption; shorter, because urgent work must wait for the work in flight
	IN_FLIGHT = 512,   // maximum number of launches in flight, well below the capacity of the driver's queue
	LAUNCHES_AHEAD = 2 // minimum number of launches in flight, whatever their duration
};

struct pick {
	struct vg_execution *execution;
	struct compute_slot *slot;
	uint64_t estimate;
	unsigned count;
};

static bool has_capacity(const struct vg_compute *compute, const struct compute_lane *lane)
{
	uint64_t window = (compute->preemption ? PREEMPT_US : AHEAD_US) * 1000ull;

	return lane->launches < IN_FLIGHT && (lane->apart || lane->ahead < window || lane->launches < LAUNCHES_AHEAD);
}

static uint64_t compute_room(struct vg_compute *compute, const struct compute_lane *lane,
			     const struct compute_quantum *quantum)
{
	uint64_t most = compute->slice_ms * COMPUTE_MS;

	if (lane->apart)
		return UINT64_MAX;
	uint64_t wanted = compute_policy_contended(compute, lane, quantum->unit) ? QUANTUM_MS : ALONE_MS;
	if (wanted * COMPUTE_MS < most)
		most = wanted * COMPUTE_MS;
	return quantum->estimate < most ? most - quantum->estimate : 0;
}

// Chooses the driver stream that is used by the fewest virtual streams. Of several such streams, chooses the first. So
// work that does not overlap uses only one driver stream.
static struct compute_slot *bind_stream(struct compute_stream *stream, struct compute_place *place, unsigned slots)
{
	struct compute_slot *best = &place->slots[0];

	if (stream->in_flight && stream->slot->place == place)
		return stream->slot;
	if (stream->in_flight)
		compute_slot_leave(stream->slot);
	for (unsigned i = 0; i < slots && best->bound; i++)
		if (place->slots[i].bound < best->bound)
			best = &place->slots[i];
	best->bound++;
	stream->slot = best;
	return best;
}

static void begin_execution(struct vg_execution *execution)
{
	execution->runner->queued--;
	execution->runner->running++;
	compute_failure_count(execution->origin->compute, 1);
	execution->started_ns = vg_clock_monotonic_ns();
	atomic_store(&execution->state, VG_EXECUTION_RUNNING);
	execution->stream->in_flight++;
}

static void pick_execution(struct compute_quantum *quantum, struct vg_execution *execution, uint64_t budget,
			   struct pick *ret_pick)
{
	struct vg_compute *compute = quantum->unit->compute;
	struct compute_stream *stream = execution->stream;
	uint64_t estimate;
	unsigned left = execution->repeat - atomic_load(&execution->launched), count = 1;

	quantum->guessed |= !compute_estimate(compute, execution, &estimate);
	if (execution->entry && budget / estimate > 1)
		count = budget / estimate < COMPUTE_PICKS ? (unsigned)(budget / estimate) : COMPUTE_PICKS;
	if (execution->entry && count > left)
		count = left;
	*ret_pick = (struct pick){execution, bind_stream(stream, quantum->place, quantum->unit->slot_count), estimate,
				  count};
	if (atomic_load(&execution->state) == VG_EXECUTION_QUEUED)
		begin_execution(execution);
	// If the execution may have more launches, it stays the stream's next one. `in_hand` says that the scheduler's
	// thread is working on it, until release_pick().
	stream->in_hand = execution->job.step || count < left;
	if (!stream->in_hand) {
		stream->next = execution->next;
		compute_queue_refresh(stream);
	}
}

static unsigned pick_work(struct vg_compute *compute, struct compute_quantum *quantum, struct pick *picks)
{
	uint64_t budget = compute_room(compute, quantum->lane, quantum), taken = 0;
	unsigned count = 0, launches = 0;

	while (count < COMPUTE_PICKS && launches < COMPUTE_PICKS &&
	       (taken < budget || (!count && !quantum->launches))) {
		struct vg_execution *next = compute_queue_peek(quantum->unit, quantum->lane);
		if (!next || (!atomic_load(&next->cancelled) && !compute_turn_admits(quantum->unit)))
			break;
		uint64_t left = budget > taken ? budget - taken : 0, turn_room = compute_turn_room(quantum->unit);
		pick_execution(quantum, next, left < turn_room ? left : turn_room, &picks[count]);
		compute_turn_count(quantum->unit, picks[count].count * picks[count].estimate);
		taken += picks[count].count * picks[count].estimate;
		launches += picks[count].count;
		count++;
		if (atomic_load(&next->cancelled))
			break; // the quantum must end; see must_end()
	}
	return count;
}

// Ends the thread's work on an execution. If launches are left, puts the stream back into its queue.
static void release_pick(const struct pick *pick)
{
	struct compute_stream *stream = pick->execution->stream;

	if (!stream->in_hand || stream->next != pick->execution)
		return;
	stream->in_hand = false;
	if (pick->execution->handed)
		stream->next = pick->execution->next;
	compute_queue_refresh(stream);
}

static bool launch_picks(struct compute_quantum *quantum, struct pick *picks, unsigned count)
{
	bool good = true;

	for (unsigned i = 0; i < count && good; i++)
		good = compute_quantum_launch(quantum, picks[i].execution, picks[i].slot, picks[i].count,
					      picks[i].estimate, i + 1 == count);
	return good;
}

static bool end_quantum(struct vg_compute *compute, struct compute_lane *lane, bool close)
{
	pthread_mutex_unlock(&compute->lock);
	bool good = close ? compute_quantum_close(lane->last) : compute_quantum_mark(lane->last);
	pthread_mutex_lock(&compute->lock);
	return good;
}

// Returns the lane's open quantum, or opens one for the next compute unit.
static struct compute_quantum *open_quantum(struct vg_compute *compute, struct compute_lane *lane)
{
	if (lane->last && !lane->last->closed)
		return lane->last;
	struct vg_compute_unit *unit = compute_policy_pick(compute, lane);
	if (unit && unit->new_streams && !unit->in_quanta) {
		compute_place_drop(&unit->whole);
		compute_place_drop(&unit->own);
		unit->new_streams = false;
	}
	struct compute_quantum *quantum = unit ? compute_quantum_open(compute, lane, unit) : NULL;
	if (quantum)
		unit->in_quanta++;
	return quantum;
}

static bool must_end(struct vg_compute *compute, struct compute_lane *lane, const struct compute_quantum *quantum)
{
	struct vg_compute_unit *unit = quantum->unit;

	if (lane->apart)
		return unit->closing && !unit->unfinished;
	// A quantum with executions but without launches has only executions that were cancelled or failed before a
	// launch in it. They need no GPU time, so end the quantum.
	if (!quantum->launches && quantum->executions)
		return true;
	return !compute_room(compute, lane, quantum) || compute_policy_yields(compute, lane, unit) ||
	       !compute_queue_peek(unit, lane) || !compute_turn_admits(unit);
}

// Launches some work in the quantum that is open in the lane. If no quantum is open, opens one first. Closes the
// quantum when its time or its work is over. Returns true if the caller should call this function again.
static bool feed_once(struct vg_compute *compute, struct compute_lane *lane)
{
	struct pick picks[COMPUTE_PICKS];

	struct compute_quantum *quantum = open_quantum(compute, lane);
	if (!quantum)
		return false;
	if (quantum->launches && must_end(compute, lane, quantum))
		return end_quantum(compute, lane, true);
	uint64_t before = quantum->estimate;
	unsigned launches = quantum->launches;
	unsigned count = pick_work(compute, quantum, picks);
	if (!count && lane->apart)
		return false;
	compute->in_hand = true;
	pthread_mutex_unlock(&compute->lock);
	bool good = launch_picks(quantum, picks, count);
	pthread_mutex_lock(&compute->lock);
	compute->in_hand = false;
	if (compute->fences)
		pthread_cond_broadcast(&compute->handed);
	quantum->unit->in_flight_ns += quantum->estimate - before;
	quantum->unit->preempted &= quantum->launches != 0;
	if (quantum->turn == lane->turn)
		lane->turn_ns += quantum->estimate - before;
	quantum->unit->launches += quantum->launches - launches;
	for (unsigned i = 0; i < count && good; i++)
		release_pick(&picks[i]);
	if (!good)
		return false;
	return end_quantum(compute, lane, must_end(compute, lane, quantum)) && count;
}

void compute_feed_close(struct vg_compute *compute)
{
	for (struct compute_lane *lane = compute->lanes; lane && !compute->failure; lane = lane->next)
		if (lane->last && !lane->last->closed && !lane->apart)
			end_quantum(compute, lane, true);
}

bool compute_feed(struct vg_compute *compute, struct compute_lane *lane)
{
	bool any = false;

	while (!compute->failure && has_capacity(compute, lane) && feed_once(compute, lane))
		any = true;
	// The loop may have stopped because the lane has enough work in flight. If the open quantum must end, close it
	// now instead of when the lane has capacity again.
	struct compute_quantum *last = lane->last;
	if (!compute->failure && last && !last->closed && must_end(compute, lane, last))
		any |= end_quantum(compute, lane, true);
	return any;
}
