// Runs vGPUs side by side: at the same time, where a context switch costs nothing and the vGPUs together do not fill
// the device. Each vGPU then gets as much done as alone. A vGPU that gets ahead of the others waits for them, so that
// the shares hold. Whether the vGPUs fill the device cannot be computed, because kernels of several programs may
// overlap. So the arbiter tries it and measures.
#include "turn/engine.h"

static const uint64_t BACKOFF_MOST = 128; // upper limit of the factor by which failed attempts lengthen the wait
// A member (a vGPU that runs side by side) must run for at least this many times `measure_ns` before its launch rate is
// known. The first launches only fill the queue, so a shorter time would measure too little.
static const uint64_t LEAST_MEASURES = 5;

static bool is_member(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu, uint64_t now)
{
	return vgpu->joined && turn_is_active(arbiter, vgpu, now) && !turn_is_urgent_class(vgpu) &&
	       !vgpu->terms.is_exempt;
}

// Returns whether at least two vGPUs may run side by side. Each active vGPU that can be a member must have a launch
// rate that was measured in turns, and a weight. It must also have no work left from an earlier turn, and must not have
// ended a turn without a launch.
static bool are_measured(const struct turn_arbiter *arbiter, uint64_t now)
{
	int count = 0;

	for (int i = 0; i < arbiter->touched; i++) {
		const struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		if (!is_member(arbiter, vgpu, now))
			continue;
		if (!vgpu->is_measured || turn_is_idle_class(vgpu) || vgpu->lasting || vgpu->silent_ns)
			return false;
		count++;
	}
	return count > 1;
}

// Returns the least virtual time of the members that launch or wait. A member is a vGPU that runs side by side.
static double find_base(const struct turn_arbiter *arbiter)
{
	double least = -1;

	for (int i = 0; i < arbiter->touched; i++) {
		const struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		if (vgpu->contexts && !turn_is_urgent_class(vgpu) && (least < 0 || vgpu->virtual_time < least))
			least = vgpu->virtual_time;
	}
	return least;
}

static double most_lead(const struct turn_arbiter *arbiter)
{
	return 2 * (double)arbiter->rules.quantum_ns;
}

static void pace_members(struct turn_arbiter *arbiter, uint64_t now)
{
	double base;

	for (int i = 0; i < arbiter->touched; i++) {
		struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		bool runs = vgpu->facts.in_flight || vgpu->facts.waiting || vgpu->launched_ns == now ||
			    now - vgpu->facts.idle_ns < arbiter->rules.grace_ns;
		vgpu->contexts = (is_member(arbiter, vgpu, now) && runs) || vgpu->request_ns;
	}
	base = find_base(arbiter);
	for (int i = 0; i < arbiter->touched; i++) {
		struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		if (!vgpu->contexts || turn_is_urgent_class(vgpu) || vgpu->virtual_time <= base)
			vgpu->paced = false;
		else if (vgpu->virtual_time > base + most_lead(arbiter))
			vgpu->paced = true;
	}
}

static void enter_beside(struct turn_arbiter *arbiter, uint64_t now)
{
	if (arbiter->holder >= 0)
		turn_finish(arbiter);
	arbiter->beside_since_ns = now;
	for (int i = 0; i < arbiter->touched; i++) {
		struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		vgpu->paced = false;
		vgpu->beside_ns = vgpu->beside_launches = 0;
		if (!is_member(arbiter, vgpu, now))
			vgpu->is_measured = false;
	}
	arbiter->regime = TURN_REGIME_BESIDE;
}

// Returns whether running side by side is worthwhile, after `lasted` nanoseconds of it. It is not if a member (a vGPU
// that runs side by side) launches much more slowly than in turns. If a member ran for too short a time to tell, all
// members count together. Then it is worthwhile if they get more done than in turns, or have too little work to fill
// the device.
static bool is_worthwhile(const struct turn_arbiter *arbiter, uint64_t lasted)
{
	const struct turn_rules *rules = &arbiter->rules;
	double done = 0; // work of all members, as the nanoseconds that the same work takes in turns
	bool is_known = true;

	for (int i = 0; i < arbiter->touched; i++) {
		const struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		double launches = (double)vgpu->beside_launches;
		if (vgpu->beside_ns == 0)
			continue;
		if (vgpu->beside_ns < LEAST_MEASURES * rules->measure_ns)
			is_known = false;
		else if (launches < rules->beside_rate * vgpu->rate * (double)vgpu->beside_ns)
			return false;
		if (vgpu->rate > 0)
			done += launches / vgpu->rate;
	}
	return is_known || done > rules->beside_gain * (double)lasted || done < rules->beside_rest * (double)lasted;
}

// Ends the time in which members run side by side. Returns to turns, in which their rates are measured again. After
// each attempt that gained nothing, the wait before the next attempt becomes longer.
static void leave_beside(struct turn_arbiter *arbiter, uint64_t now)
{
	bool worthwhile = is_worthwhile(arbiter, now - arbiter->beside_since_ns);

	for (int i = 0; i < arbiter->touched; i++) {
		struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		vgpu->is_measured = false;
		vgpu->paced = false;
		vgpu->contexts = 0;
		vgpu->beside_ns = 0;
	}
	if (worthwhile)
		arbiter->beside_backoff_ns = 0;
	else if (!arbiter->beside_backoff_ns)
		arbiter->beside_backoff_ns = arbiter->rules.beside_retry_ns;
	else if (arbiter->beside_backoff_ns < BACKOFF_MOST * arbiter->rules.beside_retry_ns)
		arbiter->beside_backoff_ns *= 2;
	arbiter->beside_after_ns = now + arbiter->beside_backoff_ns;
	arbiter->regime = TURN_REGIME_TURNS;
}

void turn_beside(struct turn_arbiter *arbiter, uint64_t now)
{
	bool may = arbiter->rules.may_be_beside && are_measured(arbiter, now);

	if (arbiter->regime == TURN_REGIME_BESIDE) {
		uint64_t lasted = now - arbiter->beside_since_ns;
		if (!may || lasted >= arbiter->rules.beside_ns ||
		    (lasted >= arbiter->rules.beside_trial_ns && !is_worthwhile(arbiter, lasted)))
			leave_beside(arbiter, now);
	} else if (may && arbiter->regime == TURN_REGIME_TURNS && now >= arbiter->beside_after_ns) {
		enter_beside(arbiter, now);
	}
	if (arbiter->regime == TURN_REGIME_BESIDE)
		pace_members(arbiter, now);
}

bool turn_is_beside(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu)
{
	return arbiter->regime == TURN_REGIME_BESIDE && vgpu->is_measured && !vgpu->paced && !vgpu->limited &&
	       !arbiter->paused;
}

// Returns the next time at which a member (a vGPU that runs side by side) gets too far ahead, or is no longer ahead.
uint64_t turn_beside_next(const struct turn_arbiter *arbiter, uint64_t now)
{
	uint64_t trial = arbiter->beside_since_ns + arbiter->rules.beside_trial_ns;
	uint64_t next = trial > now ? trial : arbiter->beside_since_ns + arbiter->rules.beside_ns;
	double base = find_base(arbiter);

	for (int i = 0; i < arbiter->touched; i++) {
		const struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		if (!vgpu->contexts || turn_is_urgent_class(vgpu))
			continue;
		double lead = vgpu->virtual_time - base;
		double wait = vgpu->paced ? lead * turn_pace(vgpu) : (most_lead(arbiter) - lead) * turn_pace(vgpu);
		// A member that is as fast as the slowest one can stay just below the largest allowed lead. `wait` is
		// then almost 0, so wait at least `return_ns` before the next check.
		next = turn_earlier(next, now + turn_later((uint64_t)(wait > 0 ? wait : 0), arbiter->rules.return_ns));
	}
	return next;
}
