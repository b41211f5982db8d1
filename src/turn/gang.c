#include "turn/gang.h"

#include "turn/engine.h"
#include "turn/page.h"

// When a job is torn, its waiting devices may launch this long after the estimated end of the work in flight.
#define LATE_NS 50000ull
// If the work in flight would end later than this from now, by estimate, the arbiter uses this time instead.
#define ESTIMATE_MOST 1000000ull

static bool lags(const struct turn_facts *part)
{
	return part->waiting && !part->in_flight;
}

// Finds out whether the job is torn: one part waits at its gate with nothing in flight, while other parts have work in
// flight. The job stays torn until all of that work has ended.
static void watch_tear(struct turn_gang *gang, const struct turn_facts *parts, unsigned int count, uint64_t now)
{
	uint64_t eta = now, most = now + ESTIMATE_MOST;
	uint32_t flying = 0;
	bool lag = false;

	for (unsigned int i = 0; i < count; i++) {
		lag |= lags(&parts[i]);
		if (!parts[i].in_flight)
			continue;
		flying |= 1u << i;
		eta = turn_later(eta, parts[i].eta_ns);
	}
	gang->stuck &= flying;
	if (!gang->stuck && lag && flying) {
		gang->stuck = flying;
		gang->due_ns = turn_earlier(eta, most) + LATE_NS;
	}
	gang->is_due = gang->stuck && now >= gang->due_ns;
}

void turn_gang_read(struct turn_gang *gang, const struct turn_facts *parts, unsigned int count, uint64_t now,
		    struct turn_facts *ret_facts)
{
	struct turn_facts facts = {0};

	watch_tear(gang, parts, count, now);
	facts.torn_ns = gang->stuck ? gang->due_ns : 0;
	for (unsigned int i = 0; i < count; i++) {
		const struct turn_facts *part = &parts[i];
		facts.eta_ns = turn_later(facts.eta_ns, part->eta_ns);
		if (part->began_ns && (!facts.began_ns || part->began_ns < facts.began_ns))
			facts.began_ns = part->began_ns;
		facts.idle_ns = turn_later(facts.idle_ns, part->idle_ns);
		facts.alive_ns = turn_later(facts.alive_ns, part->alive_ns);
		facts.launches += part->launches;
		facts.gpu_ns += part->gpu_ns / count;
		// Take the largest number of processes that any device has, not the sum over the devices. Only the
		// processes on one device divide its time among them.
		if (part->waiting > facts.waiting)
			facts.waiting = part->waiting;
		if (part->in_flight > facts.in_flight)
			facts.in_flight = part->in_flight;
		facts.is_urgent |= part->is_urgent;
		facts.is_stopped |= part->is_stopped;
		facts.is_overdue |= part->is_overdue;
	}
	*ret_facts = facts;
}

void turn_gang_gate(const struct turn_gang *gang, const struct turn_gate *gate, unsigned int index,
		    const struct turn_facts *part, struct turn_gate *ret_gate)
{
	*ret_gate = *gate;
	// During a pause, other devices may wait for launches of this one. So its processes ring all the same.
	if (turn_word_state(gate->word) == TURN_CLOSED)
		ret_gate->word &= ~(uint32_t)TURN_PAUSED;
	// Allow less work in flight near the end of a turn. With several milliseconds in flight, the devices of the job
	// end their work at different times. A simulation of two jobs with collective operations lost much time in this
	// way when the estimates were twice the real times.
	if (ret_gate->ahead_ns)
		ret_gate->ahead_ns = gate->until_ns;
	if (!gang->is_due || turn_word_state(gate->word) != TURN_CLOSED || gang->stuck >> index & 1 || !lags(part))
		return;
	// Hold the gate of this device open, but with a window of 0 µs for work in flight: each launch waits until the
	// launch before it has ended.
	ret_gate->word = turn_word(turn_word_number(gate->word), TURN_HELD, TURN_WANTED);
	ret_gate->until_ns = UINT64_MAX;
	ret_gate->ahead_ns = 0;
	ret_gate->window_us = 0;
}
