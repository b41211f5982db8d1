// Derives what each vGPU does from the reports of its processes (struct turn_facts). A vGPU may wait, work, have come
// back after an absence, or have a request in progress.
#include "turn/engine.h"

enum { EXHAUSTED_NS = 1000 }; // a budget or allowance of less than this counts as used up

// Bounds how far a vGPU is behind or ahead of the others in virtual time. A vGPU that was absent gets little credit for
// the time that it did not use. A vGPU that is ahead does not wait for ever.
static void bound_virtual_time(const struct turn_arbiter *arbiter, struct turn_vgpu *vgpu, bool came_back)
{
	double floor = arbiter->floor[turn_is_idle_class(vgpu)];
	double least = floor - (double)arbiter->rules.credit_ns / turn_pace(vgpu);
	double most = floor + (double)arbiter->rules.debt_ns;

	if (came_back && vgpu->virtual_time < least)
		vgpu->virtual_time = least;
	if (vgpu->virtual_time > most)
		vgpu->virtual_time = most;
}

// Notes when a request of the vGPU begins and ends. It ends when the process reports the end, or when there are no
// launches for `quiet_ns`.
static void watch_request(const struct turn_arbiter *arbiter, struct turn_vgpu *vgpu, uint64_t now)
{
	const struct turn_facts *facts = &vgpu->facts;
	bool lasts = facts->in_flight || now - vgpu->launched_ns < arbiter->rules.quiet_ns;

	if (vgpu->request_ns && facts->is_urgent && !lasts && facts->is_overdue)
		vgpu->unreported_ns = now;
	if (!facts->is_urgent || !lasts || !turn_is_urgent_class(vgpu))
		vgpu->request_ns = 0;
	else if (!vgpu->request_ns)
		vgpu->request_ns = now;
}

// Updates the budget. A vGPU that has used up its budget is treated as batch until the budget is full again. So its
// phases in the latency class are few and long, which needs fewer context switches.
static void watch_budget(const struct turn_arbiter *arbiter, struct turn_vgpu *vgpu)
{
	if (!vgpu->terms.is_latency)
		vgpu->over_budget = false;
	else if (vgpu->budget <= 0)
		vgpu->over_budget = true;
	else if (vgpu->budget >= turn_budget_share(arbiter, vgpu) * (double)arbiter->rules.budget_ns)
		vgpu->over_budget = false;
}

static void watch_limit(const struct turn_arbiter *arbiter, struct turn_vgpu *vgpu)
{
	if (!vgpu->terms.is_limit)
		vgpu->limited = false;
	else if (vgpu->allowance < EXHAUSTED_NS)
		vgpu->limited = true;
	else if (vgpu->allowance >= turn_limit_again(arbiter, vgpu))
		vgpu->limited = false;
}

// Adapts the vGPU's grace, the time without work after which it loses its turn. A program pauses after each
// synchronization. If its pause is a little longer than the grace, the program loses its turn at each one, and waits
// for a whole turn of another vGPU. So the grace grows to cover such pauses. After a much longer pause it is reset.
static void learn_grace(const struct turn_rules *rules, struct turn_vgpu *vgpu, uint64_t now)
{
	uint64_t wanted = now - vgpu->left_ns + rules->grace_ns;

	if (wanted <= rules->grace_most_ns)
		vgpu->grace_ns = turn_later(vgpu->grace_ns, wanted);
	else
		vgpu->grace_ns = rules->grace_ns;
	vgpu->left_ns = 0;
}

static void watch_vgpu(struct turn_arbiter *arbiter, struct turn_vgpu *vgpu, const struct turn_facts *facts,
		       uint64_t now)
{
	bool launched = facts->launches != vgpu->facts.launches;

	if (launched)
		vgpu->launched_ns = now;
	if (launched || facts->alive_ns > vgpu->silent_ns)
		vgpu->silent_ns = 0;
	if (!facts->in_flight)
		vgpu->lasting = false;
	else
		vgpu->hides_end = false;
	if (vgpu->left_ns && (launched || facts->waiting))
		learn_grace(&arbiter->rules, vgpu, now);
	vgpu->facts = *facts;
	watch_limit(arbiter, vgpu);
	watch_budget(arbiter, vgpu);
	watch_request(arbiter, vgpu, now);
	vgpu->waits = facts->waiting && !vgpu->silent_ns && !vgpu->terms.is_exempt && !turn_is_urgent_class(vgpu);
	vgpu->contends = vgpu->waits || facts->in_flight || vgpu->request_ns;
	if (vgpu->contends || launched)
		vgpu->active_ns = now;
	// Note when a vGPU with a weight was last busy. A vGPU without a weight gets the device only `idle_ns` after
	// that. Work of the latency class does not count, because it may start even while such a vGPU has the device.
	if (vgpu->active_ns && !turn_is_idle_class(vgpu) && !turn_is_urgent_class(vgpu)) {
		uint64_t last = vgpu->contends ? now : turn_earlier(facts->idle_ns, now);
		arbiter->shared_ns = turn_later(arbiter->shared_ns, last);
	}
}

static void find_eligible(struct turn_arbiter *arbiter, int index, bool waited, uint64_t now)
{
	struct turn_vgpu *vgpu = &arbiter->vgpus[index];
	bool eligible = vgpu->waits && !vgpu->limited &&
			(!turn_is_idle_class(vgpu) || now - arbiter->shared_ns >= arbiter->rules.idle_ns);

	if (eligible && !vgpu->eligible && index != arbiter->holder) {
		bool came_back = now - vgpu->present_ns >= arbiter->rules.away_ns;
		bound_virtual_time(arbiter, vgpu, came_back);
		// Only a vGPU that was absent may interrupt the turn of another vGPU. A vGPU that already waited may
		// not. A vGPU that launched nothing in recent turns (`silences`) may not either.
		vgpu->returned |= came_back && !waited && !vgpu->silences;
	}
	vgpu->eligible = eligible;
	if (eligible || (index == arbiter->holder && vgpu->contends))
		vgpu->present_ns = now;
}

void turn_watch(struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now)
{
	bool waited[TURN_VGPUS];

	arbiter->contenders = 0;
	arbiter->urgent_ns = 0;
	for (int i = 0; i < arbiter->touched; i++) {
		struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		waited[i] = vgpu->waits;
		if (!vgpu->joined)
			continue;
		watch_vgpu(arbiter, vgpu, &facts[i], now);
		arbiter->contenders += vgpu->contends;
		if (vgpu->request_ns) {
			arbiter->latency_ns = now;
			if (!arbiter->urgent_ns || vgpu->request_ns < arbiter->urgent_ns)
				arbiter->urgent_ns = vgpu->request_ns;
		}
	}
	for (int i = 0; i < arbiter->touched; i++)
		if (arbiter->vgpus[i].joined)
			find_eligible(arbiter, i, waited[i], now);
}
