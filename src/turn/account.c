// Charges time to the vGPUs that had the device. If several contexts were on the device at once, each is charged an
// equal part, because the driver gives them equal time slices. The handover at the beginning of a turn is charged to no
// vGPU.
#include "turn/engine.h"

enum { LATE_NS = 1000000 }; // work whose end is found this long after the grace was not reported

double turn_budget_share(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu)
{
	double most = arbiter->rules.unshared_budget;

	if (vgpu->terms.share || vgpu->weight < most)
		return vgpu->weight;
	return most;
}

double turn_limit_depth(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu)
{
	double depth = (double)arbiter->rules.limit_ns * vgpu->weight, most = (double)arbiter->rules.quantum_ns;

	return depth < most ? depth : most;
}

double turn_limit_again(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu)
{
	return turn_limit_depth(arbiter, vgpu) - (double)arbiter->rules.limit_early_ns * vgpu->weight;
}

static void charge_vgpu(struct turn_arbiter *arbiter, struct turn_vgpu *vgpu, uint64_t ns)
{
	vgpu->charged_ns += ns;
	arbiter->total.charged_ns += ns;
	vgpu->virtual_time += (double)ns / turn_pace(vgpu);
	vgpu->allowance -= (double)ns;
	if (arbiter->contenders > vgpu->contends) // use the budget only while another vGPU wants the device
		vgpu->budget -= (double)ns;
}

// Charges the holder of the turn. The handover is not charged. But at most half of the turn stays uncharged: otherwise
// short turns would cost the other vGPUs much more time than the holder is charged.
static void charge_holder(struct turn_arbiter *arbiter, uint64_t ns)
{
	uint64_t due;

	arbiter->part_ns += ns;
	due = arbiter->part_ns > 2 * arbiter->free_ns ? arbiter->part_ns - arbiter->free_ns : arbiter->part_ns / 2;
	if (due < arbiter->paid_ns)
		due = arbiter->paid_ns;
	arbiter->total.overhead_ns += ns - (due - arbiter->paid_ns);
	charge_vgpu(arbiter, &arbiter->vgpus[arbiter->holder], due - arbiter->paid_ns);
	arbiter->paid_ns = due;
}

// Computes the handover: the time from the grant of the turn to the first launch, plus the context switch.
static void find_handover(struct turn_arbiter *arbiter, const struct turn_facts *facts)
{
	const struct turn_rules *rules = &arbiter->rules;

	if (arbiter->launched)
		return;
	arbiter->free_ns = rules->wake_ns;
	if (facts->launches == arbiter->first_launches)
		return;
	arbiter->launched = true;
	arbiter->begin_ns = turn_later(facts->began_ns, arbiter->turn_ns) - arbiter->turn_ns;
	arbiter->free_ns = turn_earlier(arbiter->begin_ns, rules->wake_ns);
	if (arbiter->resident != arbiter->holder)
		arbiter->free_ns += rules->switch_ns;
}

// Charges `ns` nanoseconds to the vGPUs that had contexts on the device for all of that time. `with_holder`: the holder
// of the turn was one of them. If no vGPU had contexts there, counts the time as overhead or as idle time.
static void charge_stretch(struct turn_arbiter *arbiter, uint64_t ns, bool with_holder)
{
	unsigned int contexts = 0, before = 0;
	bool waits = false;

	for (int i = 0; i < arbiter->touched; i++) {
		waits |= arbiter->vgpus[i].waits;
		if (i != arbiter->holder || with_holder)
			contexts += arbiter->vgpus[i].contexts;
	}
	if (!contexts) {
		*(waits ? &arbiter->total.overhead_ns : &arbiter->total.idle_ns) += ns;
		return;
	}
	for (int i = 0; i < arbiter->touched; i++) {
		struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		if (!vgpu->contexts || (i == arbiter->holder && !with_holder))
			continue;
		uint64_t part = ns * (before + vgpu->contexts) / contexts - ns * before / contexts;
		before += vgpu->contexts;
		if (i == arbiter->holder)
			charge_holder(arbiter, part);
		else
			charge_vgpu(arbiter, vgpu, part);
	}
}

// Returns whether the slots of the holder are wrong about when its work ended. The work was in flight at the last
// decision, so it cannot have ended before. If it counts as ended by its estimate, this was in flight for `margin_ns`
// longer.
static bool is_end_false(const struct turn_arbiter *arbiter, const struct turn_facts *facts)
{
	uint64_t margin = facts->is_overdue ? arbiter->rules.margin_ns : 0;

	return arbiter->vgpus[arbiter->holder].facts.in_flight && !facts->in_flight &&
	       facts->idle_ns + margin < arbiter->last_ns;
}

// Returns whether the holder's work ended without a ring, although another vGPU waits for that, so that the arbiter
// finds the end late. During a pause, processes need not ring (TURN_PAUSED).
static bool hides_end(const struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now)
{
	const struct turn_vgpu *vgpu = &arbiter->vgpus[arbiter->holder];

	if (!vgpu->facts.in_flight || facts->in_flight)
		return false;
	return is_end_false(arbiter, facts) || (arbiter->wanted && !arbiter->paused && !facts->is_overdue &&
						facts->idle_ns + vgpu->grace_ns + LATE_NS < now);
}

// Returns the time until which the holder had the device: `now` if it has work in flight, otherwise the end of its last
// work. While its gate is open, the holder's grace is added. A holder with an open gate that waits or has not launched
// yet has the device until `now`. So has a holder that does not tell when its work ended.
static uint64_t find_holder_end(const struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now)
{
	if (facts->in_flight || is_end_false(arbiter, facts))
		return now;
	if (arbiter->drains || arbiter->paused)
		return turn_clamp(facts->idle_ns, arbiter->last_ns, now);
	if (facts->waiting || !arbiter->launched)
		return now;
	return turn_clamp(facts->idle_ns + arbiter->vgpus[arbiter->holder].grace_ns, arbiter->last_ns, now);
}

static void charge_turns(struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now)
{
	uint64_t end = arbiter->last_ns;

	if (arbiter->holder >= 0) {
		const struct turn_facts *of_holder = &facts[arbiter->holder];
		find_handover(arbiter, of_holder);
		arbiter->vgpus[arbiter->holder].hides_end |= hides_end(arbiter, of_holder, now);
		end = find_holder_end(arbiter, of_holder, now);
		for (int i = 0; i < arbiter->touched; i++)
			arbiter->crowded |= i != arbiter->holder && arbiter->vgpus[i].contexts;
		if (!arbiter->paused)
			arbiter->wall_ns += end - arbiter->last_ns;
		charge_stretch(arbiter, end - arbiter->last_ns, true);
	}
	charge_stretch(arbiter, now - end, false);
}

// Charges a vGPU that has the device alone for the time of its kernels. No other vGPU competes, so this only serves the
// figures that users see.
static void charge_alone(struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now)
{
	uint64_t elapsed = now - arbiter->last_ns, used = 0;

	if (arbiter->holder >= 0) {
		struct turn_vgpu *vgpu = &arbiter->vgpus[arbiter->holder];
		// The sum of the processes' GPU times may have become lower, because the slot of an ended process was
		// reaped.
		uint64_t before = vgpu->facts.gpu_ns;
		used = turn_clamp(facts[arbiter->holder].gpu_ns, before, before + elapsed) - before;
		vgpu->charged_ns += used;
		arbiter->total.charged_ns += used;
	}
	arbiter->total.idle_ns += elapsed - used;
}

// Charges each vGPU that runs side by side for the full time, as if it had the device alone: it gets as much work done
// as alone.
static void charge_beside(struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now)
{
	uint64_t covered = 0;

	for (int i = 0; i < arbiter->touched; i++) {
		struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		if (!vgpu->contexts || (facts[i].launches == vgpu->facts.launches && !facts[i].in_flight))
			continue;
		uint64_t end = facts[i].in_flight
				       ? now
				       : turn_clamp(facts[i].idle_ns + arbiter->rules.grace_ns, arbiter->last_ns, now);
		uint64_t ns = end - arbiter->last_ns;
		charge_vgpu(arbiter, vgpu, ns);
		vgpu->beside_ns += ns;
		vgpu->beside_launches += facts[i].launches - vgpu->facts.launches;
		arbiter->total.beside_ns += turn_earlier(ns, covered);
		covered = ns > covered ? ns : covered;
	}
	arbiter->total.idle_ns += now - arbiter->last_ns - covered;
}

static void refill_buckets(const struct turn_arbiter *arbiter, struct turn_vgpu *vgpu, uint64_t elapsed)
{
	double share = turn_budget_share(arbiter, vgpu), depth = share * (double)arbiter->rules.budget_ns;
	double most = turn_limit_depth(arbiter, vgpu);

	vgpu->budget += (double)elapsed * share;
	if (!vgpu->terms.is_latency || vgpu->budget > depth)
		vgpu->budget = depth;
	if (vgpu->budget < -depth)
		vgpu->budget = -depth;
	vgpu->allowance += (double)elapsed * vgpu->weight;
	if (!vgpu->terms.is_limit || vgpu->allowance > most)
		vgpu->allowance = most;
	// Bound the debt: a vGPU that has used more than its limit waits at most `debt_ns`, however much it has used.
	if (vgpu->allowance < -vgpu->weight * (double)arbiter->rules.debt_ns)
		vgpu->allowance = -vgpu->weight * (double)arbiter->rules.debt_ns;
}

// Updates `floor`, the least virtual time of each of two classes: vGPUs with a weight, and vGPUs that get idle time
// only. A floor never decreases. After an absence, a vGPU continues near the floor of its class, so that it gets little
// credit for its absence.
static void raise_floor(struct turn_arbiter *arbiter)
{
	for (int class = 0; class < 2; class ++) {
		double least = -1;
		for (int i = 0; i < arbiter->touched; i++) {
			const struct turn_vgpu *vgpu = &arbiter->vgpus[i];
			bool competes = vgpu->eligible || i == arbiter->holder ||
					(arbiter->regime == TURN_REGIME_BESIDE && vgpu->contexts);
			if (turn_is_idle_class(vgpu) == class && competes && (least < 0 || vgpu->virtual_time < least))
				least = vgpu->virtual_time;
		}
		if (least > arbiter->floor[class])
			arbiter->floor[class] = least;
	}
}

static void charge_regime(struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now)
{
	if (arbiter->regime == TURN_REGIME_OFF)
		arbiter->total.idle_ns += now - arbiter->last_ns;
	else if (arbiter->regime == TURN_REGIME_ALONE)
		charge_alone(arbiter, facts, now);
	else if (arbiter->regime == TURN_REGIME_BESIDE)
		charge_beside(arbiter, facts, now);
	else
		charge_turns(arbiter, facts, now);
	for (int i = 0; i < arbiter->touched; i++) {
		struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		refill_buckets(arbiter, vgpu, now - arbiter->last_ns);
		if (vgpu->waits && i != arbiter->holder)
			vgpu->waited_ns += now - arbiter->last_ns;
	}
	arbiter->total.elapsed_ns += now - arbiter->last_ns;
	arbiter->last_ns = now;
}

void turn_charge_time(struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now)
{
	bool waits = false;

	for (int i = 0; i < arbiter->touched; i++)
		waits |= arbiter->vgpus[i].waits;
	// The arbiter has given no beat (a periodic sign that it runs) for too long, so the gates have opened by
	// themselves. Which vGPUs ran meanwhile is unknown.
	if (waits && now - arbiter->last_ns > TURN_BEAT_NS) {
		uint64_t lost = now - arbiter->last_ns - TURN_BEAT_NS;
		charge_regime(arbiter, facts, now - lost);
		arbiter->total.idle_ns += lost;
		arbiter->total.elapsed_ns += lost;
		arbiter->last_ns = now;
	} else {
		charge_regime(arbiter, facts, now);
	}
	raise_floor(arbiter);
}

void turn_weigh(struct turn_arbiter *arbiter, uint64_t now)
{
	unsigned int shares = 0, without = 0;

	for (int i = 0; i < arbiter->touched; i++) {
		const struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		shares += vgpu->terms.share;
		without += vgpu->joined && !vgpu->terms.share && turn_is_active(arbiter, vgpu, now);
	}
	for (int i = 0; i < arbiter->touched; i++) {
		struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		bool idle_class = turn_is_idle_class(vgpu);
		vgpu->weight =
			vgpu->terms.share ? vgpu->terms.share / 100. : (100 - shares) / 100. / (without ? without : 1);
		if (turn_is_idle_class(vgpu) != idle_class)
			vgpu->virtual_time = arbiter->floor[!idle_class];
	}
}
