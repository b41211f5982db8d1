// Turns the arbiter's decision into orders: computes the word of each gate, and the time of the next decision.
#include "turn/engine.h"

static void note_reason(struct turn_vgpu *vgpu, enum turn_reason reason, uint64_t now)
{
	if (vgpu->reason != reason || !vgpu->reason_ns) {
		vgpu->reason = reason;
		vgpu->reason_ns = now;
	}
}

static enum turn_reason find_reason(const struct turn_arbiter *arbiter, int index)
{
	const struct turn_vgpu *vgpu = &arbiter->vgpus[index];

	if (arbiter->regime == TURN_REGIME_OFF)
		return TURN_REASON_OFF;
	if (vgpu->terms.is_exempt)
		return TURN_REASON_EXEMPT;
	if (vgpu->facts.is_stopped && !vgpu->contends) // a process is stopped, and no other process of the vGPU works
		return TURN_REASON_STOPPED;
	if (vgpu->lasting && index != arbiter->holder)
		return TURN_REASON_RESIDENT;
	if (vgpu->silent_ns)
		return TURN_REASON_SILENT;
	if (vgpu->limited)
		return TURN_REASON_LIMITED;
	if (vgpu->terms.is_latency && vgpu->over_budget)
		return TURN_REASON_BUDGET;
	if (turn_is_idle_class(vgpu))
		return TURN_REASON_UNSHARED;
	if (arbiter->regime == TURN_REGIME_ALONE)
		return TURN_REASON_ALONE;
	return arbiter->regime == TURN_REGIME_BESIDE ? TURN_REASON_BESIDE : TURN_REASON_NONE;
}

// Records which vGPUs have contexts on the device from now on.
static void place_contexts(struct turn_arbiter *arbiter)
{
	for (int i = 0; i < arbiter->touched; i++) {
		struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		unsigned int contexts = vgpu->joined ? vgpu->facts.in_flight : 0;
		bool has = (i == arbiter->holder && !arbiter->drains && !arbiter->paused) || vgpu->request_ns;
		vgpu->contexts = contexts || !has ? contexts : 1;
	}
}

// Returns whether the holder may have more work in flight than the window, so that the device stays busy while the host
// pauses. It may if all other vGPUs wait already, because then no vGPU can come back after an absence, or begin a
// request, and interrupt the turn. No process knows how much work other processes of its vGPU have in flight, so only
// one process may do this.
static bool may_run_ahead(const struct turn_arbiter *arbiter)
{
	const struct turn_facts *facts = &arbiter->vgpus[arbiter->holder].facts;

	if (facts->in_flight > 1 || facts->waiting > 1)
		return false;
	for (int i = 0; i < arbiter->touched; i++) {
		const struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		if (i != arbiter->holder && vgpu->joined && (!vgpu->waits || !vgpu->eligible || vgpu->terms.is_latency))
			return false;
	}
	return true;
}

static void order_gate(const struct turn_arbiter *arbiter, int index, uint64_t now, const struct turn_orders *orders,
		       struct turn_gate *gate)
{
	const struct turn_rules *rules = &arbiter->rules;
	const struct turn_vgpu *vgpu = &arbiter->vgpus[index];
	bool holds = index == arbiter->holder && !arbiter->drains && !arbiter->paused;
	uint64_t window = rules->window_ns;
	unsigned int flags = 0;
	enum turn_state state = TURN_CLOSED;

	if (arbiter->latency_ns && now - arbiter->latency_ns < rules->active_ns)
		window = turn_earlier(window, rules->urgent_window_ns);
	if (turn_is_idle_class(vgpu))
		window = turn_earlier(window, rules->idle_window_ns);
	gate->until_ns = UINT64_MAX;
	gate->ahead_ns = 0;
	if (arbiter->regime == TURN_REGIME_OFF || vgpu->terms.is_exempt) {
		state = TURN_OPEN;
		flags = arbiter->counts_all ? TURN_COUNT : 0;
	} else if (turn_is_urgent_class(vgpu)) {
		bool alone = arbiter->regime == TURN_REGIME_ALONE && turn_is_active(arbiter, vgpu, now);
		// A vGPU of the latency class that is within its budget never waits for a turn. The window limits by
		// how much the vGPU can exceed its budget.
		state = alone ? TURN_OPEN : TURN_HELD;
		flags = alone ? TURN_COUNT : TURN_ANNOUNCE;
		window = rules->window_ns;
	} else if (turn_is_beside(arbiter, vgpu)) {
		state = TURN_HELD;
		flags = arbiter->wanted ? TURN_WANTED : 0;
	} else if (holds && arbiter->regime == TURN_REGIME_ALONE && !turn_is_idle_class(vgpu)) {
		state = TURN_OPEN;
		flags = TURN_COUNT;
	} else if (holds) {
		state = TURN_HELD;
		gate->until_ns = turn_until(arbiter, now);
		flags = gate->until_ns != UINT64_MAX || arbiter->wanted ? TURN_WANTED : 0;
		if (gate->until_ns != UINT64_MAX && !turn_is_idle_class(vgpu) && may_run_ahead(arbiter))
			gate->ahead_ns = gate->until_ns + rules->ahead_ns;
	} else if (index == arbiter->holder && arbiter->paused && !arbiter->drains) {
		flags = TURN_SPIN | TURN_PAUSED;
	} else if (orders->poll && index == orders->next) {
		flags = TURN_SPIN;
	}
	gate->word = turn_word(state == TURN_OPEN && !flags ? 0 : vgpu->number, state, flags);
	gate->window_us = (uint32_t)(window / 1000);
	gate->patience_us = (uint32_t)(rules->patience_ns / 1000);
	gate->turn_ns = arbiter->turn_ns;
	gate->reason = vgpu->reason;
	gate->since_ns = vgpu->reason_ns;
}

// Returns the time at which the arbiter looks at the vGPU's work again. This is after the work's estimated end, because
// the real end may never be reported. If the vGPU has reported the ends of its work so far, most of these looks find
// nothing new, so the arbiter looks less often.
static uint64_t find_look(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu, uint64_t now)
{
	const struct turn_rules *rules = &arbiter->rules;
	bool trusted = now - vgpu->unreported_ns >= rules->trust_ns;
	uint64_t least = trusted ? rules->look_trusted_ns : rules->look_ns;

	if (vgpu->lasting)
		least = rules->patience_ns;
	else if (vgpu->request_ns)
		least = trusted ? rules->look_ns : rules->look_request_ns;
	return turn_clamp(vgpu->facts.eta_ns, now + least, now + rules->patience_ns) + rules->margin_ns;
}

// Returns the next time at which something changes for the vGPU although no process wakes the arbiter.
static uint64_t next_of_vgpu(const struct turn_arbiter *arbiter, int index, uint64_t now)
{
	const struct turn_rules *rules = &arbiter->rules;
	const struct turn_vgpu *vgpu = &arbiter->vgpus[index];
	uint64_t next = UINT64_MAX;

	if (vgpu->facts.waiting)
		next = now + TURN_BEAT_NS / 2;
	if (vgpu->facts.torn_ns > now)
		next = turn_earlier(next, vgpu->facts.torn_ns);
	if (vgpu->facts.in_flight && index != arbiter->holder && arbiter->regime == TURN_REGIME_TURNS)
		next = turn_earlier(next, find_look(arbiter, vgpu, now));
	if (vgpu->limited) {
		double missing = turn_limit_again(arbiter, vgpu) - vgpu->allowance;
		next = turn_earlier(next, now + (uint64_t)(missing / vgpu->weight) + 1000);
	}
	if (vgpu->request_ns && !vgpu->facts.in_flight)
		next = turn_earlier(next, vgpu->launched_ns + rules->quiet_ns);
	if (vgpu->request_ns && arbiter->contenders > 1) // others wait: look when the request has used up the budget
		next = turn_earlier(next, now + (uint64_t)(vgpu->budget > 0 ? vgpu->budget : 0) + 1000);
	if (vgpu->over_budget && vgpu->facts.in_flight + vgpu->facts.waiting) {
		double share = turn_budget_share(arbiter, vgpu);
		double missing = share * (double)rules->budget_ns - vgpu->budget;
		if (share > 0)
			next = turn_earlier(next, now + (uint64_t)((missing > 0 ? missing : 0) / share) + 1000);
	}
	if (vgpu->waits && !vgpu->eligible && turn_is_idle_class(vgpu) && arbiter->shared_ns < now)
		// The vGPUs with a weight are idle now. This vGPU, which gets idle time only, may have the device once
		// they have been idle for `idle_ns`. While they work, the arbiter needs no time for this: a vGPU that
		// becomes idle wakes it.
		next = turn_earlier(next, arbiter->shared_ns + rules->idle_ns);
	if (!vgpu->contends && turn_is_active(arbiter, vgpu, now) && arbiter->regime != TURN_REGIME_ALONE)
		next = turn_earlier(next, vgpu->active_ns + rules->active_ns);
	return next;
}

static uint64_t next_of_turn(const struct turn_arbiter *arbiter, uint64_t now, const struct turn_orders *orders)
{
	const struct turn_vgpu *vgpu = &arbiter->vgpus[arbiter->holder];
	uint64_t next;

	if (arbiter->drains) {
		uint64_t eta = vgpu->facts.eta_ns, spin = eta - turn_earlier(eta, arbiter->rules.spin_ns);
		next = arbiter->drained_ns;
		if (spin > now)
			return turn_earlier(next, spin);
		// The end of the work may never be reported, so look when its estimate is over.
		return eta + arbiter->rules.margin_ns > now ? turn_earlier(next, eta + arbiter->rules.margin_ns) : next;
	}
	if (arbiter->paused)
		return UINT64_MAX;
	next = turn_until(arbiter, now);
	if (vgpu->facts.in_flight && arbiter->wanted)
		next = turn_earlier(next, find_look(arbiter, vgpu, now));
	else if (orders->next >= 0)
		next = turn_earlier(next, turn_idle_end(arbiter));
	return next;
}

// Returns whether the drain (the wait for the holder's work in flight) ends so soon that sleeping is not worth it.
static bool ends_soon(const struct turn_arbiter *arbiter, uint64_t now)
{
	uint64_t eta = arbiter->vgpus[arbiter->holder].facts.eta_ns;

	return eta <= now + arbiter->rules.spin_ns && now <= eta + arbiter->rules.spin_ns;
}

void turn_order(struct turn_arbiter *arbiter, uint64_t now, struct turn_orders *orders)
{
	uint64_t next = UINT64_MAX;

	arbiter->wanted = false;
	for (int i = 0; i < arbiter->touched; i++)
		arbiter->wanted |= i != arbiter->holder && arbiter->vgpus[i].waits;
	orders->regime = arbiter->regime;
	orders->holder = arbiter->holder;
	orders->next = turn_choose(arbiter, TURN_ALL);
	orders->reason = arbiter->regime == TURN_REGIME_OFF ? TURN_REASON_OFF : TURN_REASON_NONE;
	orders->reason_vgpu = -1;
	// If the drain is about to end, neither the arbiter nor the threads of the next vGPU sleep.
	orders->poll = arbiter->holder >= 0 && arbiter->drains && !arbiter->paused && ends_soon(arbiter, now);
	if (arbiter->regime == TURN_REGIME_BESIDE)
		next = turn_beside_next(arbiter, now);
	else
		place_contexts(arbiter);
	if (arbiter->holder >= 0)
		next = turn_earlier(next, next_of_turn(arbiter, now, orders));
	if (arbiter->urgent_ns && !arbiter->paused)
		next = turn_earlier(next, arbiter->urgent_ns + arbiter->rules.urgent_delay_ns);
	for (int i = 0; i < arbiter->touched; i++) {
		struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		if (!vgpu->joined) {
			orders->gates[i] = (struct turn_gate){0};
			continue;
		}
		note_reason(vgpu, find_reason(arbiter, i), now);
		if (vgpu->reason == TURN_REASON_RESIDENT && orders->reason != TURN_REASON_RESIDENT) {
			orders->reason = TURN_REASON_RESIDENT;
			orders->reason_vgpu = i;
		}
		order_gate(arbiter, i, now, orders, &orders->gates[i]);
		if (arbiter->regime != TURN_REGIME_OFF)
			next = turn_earlier(next, next_of_vgpu(arbiter, i, now));
	}
	arbiter->total.quantum_ns = turn_mean_quantum(arbiter);
	orders->next_ns = next > now ? next : now + 1;
}
