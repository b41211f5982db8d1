// Grants a turn. Ends a turn when its time is over or its holder is idle: closes the gate and waits until the work in
// flight has ended (the drain).
#include "turn/engine.h"

enum { HANDOVERS = 16 }; // the mean time of a handover is taken over about this many handovers

static void measure_turn(struct turn_arbiter *arbiter, struct turn_vgpu *vgpu)
{
	if (arbiter->crowded || arbiter->wall_ns < arbiter->rules.measure_ns)
		return;
	vgpu->is_measured = true;
	vgpu->rate = (double)(vgpu->facts.launches - arbiter->first_launches) / (double)arbiter->wall_ns;
}

void turn_finish(struct turn_arbiter *arbiter)
{
	struct turn_vgpu *vgpu = &arbiter->vgpus[arbiter->holder];

	measure_turn(arbiter, vgpu);
	if (arbiter->launched) {
		double took = (double)arbiter->begin_ns;
		if (arbiter->resident != arbiter->holder)
			took += (double)arbiter->rules.switch_ns;
		arbiter->handover_ns += (took - arbiter->handover_ns) / HANDOVERS;
		arbiter->resident = arbiter->holder;
		// The holder needed only a small part of the time that it has for its first launch. So it is no longer
		// slow to wake, and gets less time in its next turns.
		if (vgpu->silences && arbiter->begin_ns < turn_silence(arbiter, vgpu) / 4)
			vgpu->silences--;
	}
	arbiter->holder = -1;
	arbiter->drains = false;
}

static void grant_turn(struct turn_arbiter *arbiter, int index, uint64_t now)
{
	struct turn_vgpu *vgpu = &arbiter->vgpus[index];

	arbiter->holder = index;
	arbiter->drains = false;
	arbiter->number = (arbiter->number + 1) % TURN_NUMBERS;
	arbiter->turn_ns = now;
	arbiter->wall_ns = arbiter->part_ns = arbiter->paid_ns = 0;
	arbiter->free_ns = arbiter->rules.wake_ns;
	arbiter->launched = false;
	arbiter->crowded = false;
	arbiter->first_launches = vgpu->facts.launches;
	arbiter->total.handovers += arbiter->resident != index;
	vgpu->number = arbiter->number;
	vgpu->returned = vgpu->hides_end = false;
	vgpu->turns++;
}

// Returns how long the vGPU keeps its turn if it launches nothing. The time doubles with each turn in a row that passed
// without a launch, because the process may only be slow to wake.
uint64_t turn_silence(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu)
{
	uint64_t most = arbiter->rules.patience_ns, ns = arbiter->rules.launch_ns;

	for (unsigned int i = 0; i < vgpu->silences && ns < most; i++)
		ns *= 2;
	return turn_earlier(ns, most);
}

uint64_t turn_idle_end(const struct turn_arbiter *arbiter)
{
	const struct turn_vgpu *vgpu = &arbiter->vgpus[arbiter->holder];
	const struct turn_facts *facts = &vgpu->facts;

	if (!arbiter->launched)
		return arbiter->turn_ns + turn_silence(arbiter, vgpu);
	if (facts->in_flight)
		return UINT64_MAX;
	uint64_t since = turn_later(facts->idle_ns, arbiter->turn_ns);
	// A thread that waits at the gate keeps updating `alive_ns`, and the vGPU keeps its turn. In a stopped process
	// `alive_ns` stands still, so the turn ends after `launch_ns`.
	return facts->waiting ? turn_later(since, facts->alive_ns) + arbiter->rules.launch_ns : since + vgpu->grace_ns;
}

static bool end_idle_turn(struct turn_arbiter *arbiter, uint64_t now)
{
	struct turn_vgpu *vgpu = &arbiter->vgpus[arbiter->holder];

	if (turn_choose(arbiter, TURN_ALL) < 0 || now < turn_idle_end(arbiter))
		return false;
	if (!arbiter->launched) {
		vgpu->silent_ns = now;
		vgpu->silences++;
		vgpu->waits = vgpu->eligible = false;
	} else {
		vgpu->left_ns = turn_later(vgpu->facts.idle_ns, arbiter->turn_ns);
		if (vgpu->facts.is_overdue || vgpu->hides_end)
			vgpu->unreported_ns = now;
	}
	turn_finish(arbiter);
	return true;
}

static void close_gate(struct turn_arbiter *arbiter, uint64_t now)
{
	const struct turn_rules *rules = &arbiter->rules;
	struct turn_vgpu *vgpu = &arbiter->vgpus[arbiter->holder];
	uint64_t left = vgpu->facts.eta_ns > now ? vgpu->facts.eta_ns - now : 0;
	uint64_t beyond = left / 2 > rules->patience_least_ns ? left / 2 : rules->patience_least_ns;

	arbiter->drains = true;
	arbiter->closed_ns = now;
	arbiter->drained_ns = now + turn_earlier(left + beyond, rules->patience_ns);
	if (left > rules->patience_ns) // the work in flight would outlast the longest wait, so do not wait for it
		vgpu->lasting = true;
}

// Returns true if the turn is over: the work in flight has ended, or the arbiter has waited long enough.
static bool wait_for_drain(struct turn_arbiter *arbiter, uint64_t now)
{
	struct turn_vgpu *vgpu = &arbiter->vgpus[arbiter->holder];

	if (!vgpu->facts.in_flight || vgpu->lasting)
		return true;
	if (vgpu->facts.torn_ns) { // the work in flight waits for launches of the job on other devices
		uint64_t longest = arbiter->closed_ns + arbiter->rules.patience_ns;
		uint64_t until = turn_earlier(now + arbiter->rules.patience_least_ns, longest);
		arbiter->drained_ns = turn_later(arbiter->drained_ns, until);
	}
	if (now < arbiter->drained_ns)
		return false;
	vgpu->lasting = true; // from now on the driver divides its time between this work and that of the next vGPU
	return true;
}

// Closes the gates of batch vGPUs while a request of the latency class is in progress. A batch vGPU is one that is not
// of that class. If a vGPU has the turn, this happens `urgent_delay_ns` after the request began, otherwise at once.
static void update_pause(struct turn_arbiter *arbiter, uint64_t now)
{
	bool paused = arbiter->urgent_ns &&
		      (arbiter->holder < 0 || now >= arbiter->urgent_ns + arbiter->rules.urgent_delay_ns);

	if (arbiter->paused && !paused && arbiter->holder >= 0)
		// The request has ended, and the device switches to the holder's context again. Count this switch as
		// handover, which is not charged.
		arbiter->free_ns += arbiter->rules.switch_ns;
	arbiter->paused = paused;
}

// Returns whether the holder is inactive while another vGPU is active. The gate of the active vGPU is open. If the
// holder kept its turn, it could launch without waking the arbiter, and both vGPUs would launch.
static bool sleeps_beside_another(const struct turn_arbiter *arbiter, const struct turn_vgpu *holder, uint64_t now)
{
	if (turn_is_active(arbiter, holder, now))
		return false;
	for (int i = 0; i < arbiter->touched; i++)
		if (turn_is_active(arbiter, &arbiter->vgpus[i], now))
			return true;
	return false;
}

void turn_change(struct turn_arbiter *arbiter, uint64_t now)
{
	update_pause(arbiter, now);
	if (arbiter->holder >= 0) {
		const struct turn_vgpu *vgpu = &arbiter->vgpus[arbiter->holder];
		if (vgpu->terms.is_exempt || turn_is_urgent_class(vgpu) || sleeps_beside_another(arbiter, vgpu, now))
			turn_finish(arbiter);
		else if (!arbiter->drains && !arbiter->paused && !end_idle_turn(arbiter, now) &&
			 now >= turn_until(arbiter, now))
			close_gate(arbiter, now);
	}
	if (arbiter->holder >= 0 && arbiter->drains && wait_for_drain(arbiter, now))
		turn_finish(arbiter);
	if (arbiter->holder < 0 && arbiter->urgent_ns)
		arbiter->paused = true;
	if (arbiter->holder < 0 && !arbiter->paused) {
		int next = turn_choose(arbiter, TURN_ALL);
		if (next >= 0)
			grant_turn(arbiter, next, now);
	}
}
