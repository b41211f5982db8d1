#include "turn/gang.h"

#include "turn/engine.h"
#include "turn/page.h"

// Returns whether a part has stopped at its gate with nothing in flight, while another one has work in flight. That work
// may be a collective operation, which ends only after the first part has launched it, too.
static bool is_torn(const struct turn_facts *parts, unsigned int count)
{
	bool flies = false, lags = false;

	for (unsigned int i = 0; i < count; i++) {
		flies |= parts[i].in_flight > 0;
		lags |= !parts[i].in_flight && parts[i].waiting;
	}
	return flies && lags;
}

void turn_gang_read(const struct turn_facts *parts, unsigned int count, struct turn_facts *ret_facts)
{
	struct turn_facts facts = {.is_torn = is_torn(parts, count)};

	for (unsigned int i = 0; i < count; i++) {
		const struct turn_facts *part = &parts[i];
		facts.eta_ns = turn_later(facts.eta_ns, part->eta_ns);
		if (part->began_ns && (!facts.began_ns || part->began_ns < facts.began_ns))
			facts.began_ns = part->began_ns;
		facts.idle_ns = turn_later(facts.idle_ns, part->idle_ns);
		facts.alive_ns = turn_later(facts.alive_ns, part->alive_ns);
		facts.launches += part->launches;
		facts.gpu_ns += part->gpu_ns / count;
		// The processes of one device share it, those of different devices do not.
		if (part->waiting > facts.waiting)
			facts.waiting = part->waiting;
		if (part->in_flight > facts.in_flight)
			facts.in_flight = part->in_flight;
		facts.is_urgent |= part->is_urgent;
		facts.is_stopped |= part->is_stopped;
	}
	*ret_facts = facts;
}

void turn_gang_gate(const struct turn_gate *gate, const struct turn_facts *part, struct turn_gate *ret_gate)
{
	*ret_gate = *gate;
	if (!gate->catches_up || part->in_flight || !part->waiting)
		return;
	// One launch at a time, so that the part gets no further than the others.
	ret_gate->word = turn_word(turn_word_number(gate->word), TURN_HELD, TURN_WANTED);
	ret_gate->until_ns = UINT64_MAX;
	ret_gate->ahead_ns = 0;
	ret_gate->window_us = 0;
}
