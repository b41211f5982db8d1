// Chooses the vGPU of the next turn, and the length of turns.
#include "turn/engine.h"

int turn_choose(const struct turn_arbiter *arbiter, enum turn_candidates candidates)
{
	int best = -1;

	for (int i = 0; i < arbiter->touched; i++) {
		const struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		if (i == arbiter->holder || !vgpu->eligible || (candidates == TURN_RETURNED && !vgpu->returned))
			continue;
		if (best >= 0 && turn_is_idle_class(vgpu) != turn_is_idle_class(&arbiter->vgpus[best])) {
			if (!turn_is_idle_class(vgpu))
				best = i;
		} else if (best < 0 || vgpu->virtual_time < arbiter->vgpus[best].virtual_time) {
			best = i;
		}
	}
	return best;
}

static unsigned int count_contenders(const struct turn_arbiter *arbiter, double *ret_weights)
{
	unsigned int count = 0;

	*ret_weights = 0;
	for (int i = 0; i < arbiter->touched; i++) {
		const struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		if (i == arbiter->holder || vgpu->eligible) {
			count++;
			*ret_weights += turn_pace(vgpu);
		}
	}
	return count;
}

// Returns a mean length of turns that is long compared with a handover, but fits all contenders into a round.
static uint64_t find_mean_quantum(const struct turn_arbiter *arbiter, unsigned int contenders)
{
	const struct turn_rules *rules = &arbiter->rules;
	uint64_t most = rules->round_ns / (contenders ? contenders : 1);
	uint64_t mean = (uint64_t)(arbiter->handover_ns / rules->handover_part);

	return turn_earlier(turn_later(mean, rules->quantum_ns), turn_later(most, rules->quantum_least_ns));
}

uint64_t turn_mean_quantum(const struct turn_arbiter *arbiter)
{
	double weights;

	return find_mean_quantum(arbiter, count_contenders(arbiter, &weights));
}

// Returns the length of the holder's turn: its part of a round, in which every contender has one turn. A part below
// `turn_short_ns` is raised to that length, but not above the holder's part of the longest round (`round_ns`). A holder
// with a raised turn gets turns less often.
static uint64_t find_quantum(const struct turn_arbiter *arbiter, const struct turn_vgpu *holder)
{
	const struct turn_rules *rules = &arbiter->rules;
	double weights;
	unsigned int contenders = count_contenders(arbiter, &weights);
	double round = (double)find_mean_quantum(arbiter, contenders) * contenders;
	uint64_t own = (uint64_t)(round * turn_pace(holder) / weights);
	uint64_t most = (uint64_t)((double)rules->round_ns * turn_pace(holder) / weights);
	uint64_t least = turn_later(turn_earlier(rules->turn_short_ns, most), rules->turn_least_ns);

	return turn_later(own, least);
}

// Returns how long the holder takes to reach the virtual time `target` if it has the device alone. Virtual time does
// not advance during the handover, which is not charged. So adds the part of the handover that is still to come.
static uint64_t time_to_reach(const struct turn_arbiter *arbiter, const struct turn_vgpu *holder, double target)
{
	double ns = (target - holder->virtual_time) * turn_pace(holder);
	uint64_t uncharged = arbiter->part_ns - arbiter->paid_ns;

	if (ns <= 0)
		return 0;
	return (uint64_t)ns + (arbiter->launched && arbiter->free_ns > uncharged ? arbiter->free_ns - uncharged : 0);
}

// Returns how much of `ns` is left in this turn. Counts from the first launch, so that the handover uses none of it.
static uint64_t time_left_of(const struct turn_arbiter *arbiter, uint64_t ns)
{
	uint64_t end = ns + arbiter->free_ns;

	if (!arbiter->launched)
		return ns;
	return end > arbiter->wall_ns ? end - arbiter->wall_ns : 0;
}

// Returns the time at which the turn ends: when its quantum is over, and the holder's virtual time has reached that of
// the next vGPU. The turn ends earlier if the holder's share is a limit and is used up. It also ends earlier if a vGPU
// came back after an absence, and is behind the holder in virtual time.
uint64_t turn_until(const struct turn_arbiter *arbiter, uint64_t now)
{
	const struct turn_rules *rules = &arbiter->rules;
	const struct turn_vgpu *holder = &arbiter->vgpus[arbiter->holder];
	int next = turn_choose(arbiter, TURN_ALL), back = turn_choose(arbiter, TURN_RETURNED);
	uint64_t until = UINT64_MAX, rest;

	if (holder->limited)
		return now;
	if (holder->terms.is_limit)
		until = now + (uint64_t)(holder->allowance / (1.000001 - holder->weight));
	if (next < 0)
		return until;
	if (turn_is_idle_class(holder) && !turn_is_idle_class(&arbiter->vgpus[next]))
		return now;
	rest = time_left_of(arbiter, find_quantum(arbiter, holder));
	if (!arbiter->launched && holder->silences) // the holder's process is slow to wake, so its turn may last longer
		rest += turn_silence(arbiter, holder);
	rest = turn_later(rest, time_to_reach(arbiter, holder, arbiter->vgpus[next].virtual_time));
	until = turn_earlier(until, now + rest);
	if (back >= 0) {
		double target = arbiter->vgpus[back].virtual_time + (double)rules->return_lag_ns;
		rest = turn_later(time_left_of(arbiter, rules->return_ns), time_to_reach(arbiter, holder, target));
		until = turn_earlier(until, now + rest);
	}
	return until;
}
