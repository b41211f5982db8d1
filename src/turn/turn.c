#include "turn/turn.h"

#include <errno.h>
#include <stdlib.h>

#include "turn/engine.h"

#define MICROSECONDS 1000ull
#define MILLISECONDS 1000000ull
#define SECONDS 1000000000ull

void turn_rules(enum turn_mode mode, struct turn_rules *ret_rules)
{
	*ret_rules = (struct turn_rules){
		.quantum_ns = 12 * MILLISECONDS,
		.handover_part = .010,
		.round_ns = 80 * MILLISECONDS,
		.quantum_least_ns = 6 * MILLISECONDS,
		.turn_short_ns = 5 * MILLISECONDS,
		.turn_least_ns = 1 * MILLISECONDS,
		.switch_ns = 115 * MICROSECONDS,
		.wake_ns = 300 * MICROSECONDS,
		.look_ns = 2 * MILLISECONDS,
		.look_trusted_ns = 8 * MILLISECONDS,
		.look_request_ns = 2 * TURN_QUIET_NS,
		.trust_ns = 2 * SECONDS,
		.grace_ns = 100 * MICROSECONDS,
		.grace_most_ns = 600 * MICROSECONDS,
		.launch_ns = 2 * MILLISECONDS,
		.return_ns = 2 * MILLISECONDS,
		.return_lag_ns = 1 * MILLISECONDS,
		.away_ns = 500 * MICROSECONDS,
		.patience_ns = 20 * MILLISECONDS,
		.patience_least_ns = 1 * MILLISECONDS,
		.margin_ns = 100 * MICROSECONDS,
		.spin_ns = 60 * MICROSECONDS,
		.window_ns = 1500 * MICROSECONDS,
		.urgent_window_ns = 250 * MICROSECONDS,
		.idle_window_ns = 200 * MICROSECONDS,
		.ahead_ns = 4 * MILLISECONDS,
		.credit_ns = 20 * MILLISECONDS,
		.debt_ns = 1 * SECONDS,
		.active_ns = 1 * SECONDS,
		.idle_ns = 5 * MILLISECONDS,
		.urgent_delay_ns = 100 * MICROSECONDS,
		.quiet_ns = TURN_QUIET_NS,
		.budget_ns = 50 * MILLISECONDS,
		.unshared_budget = .1,
		.limit_ns = 40 * MILLISECONDS,
		.limit_early_ns = 4 * MILLISECONDS,
		.beside_rate = .7,
		.beside_gain = 1.1,
		.beside_rest = .85,
		.beside_trial_ns = 20 * MILLISECONDS,
		.beside_ns = 2 * SECONDS,
		.beside_retry_ns = 500 * MILLISECONDS,
		.measure_ns = 1 * MILLISECONDS,
	};
	if (mode == TURN_MODE_MPS) {
		ret_rules->quantum_ns = 4 * MILLISECONDS;
		ret_rules->quantum_least_ns = 2 * MILLISECONDS;
		ret_rules->switch_ns = 0;
		// Without context switches, short turns cost little.
		ret_rules->turn_short_ns = ret_rules->turn_least_ns;
		ret_rules->window_ns = 400 * MICROSECONDS;
		ret_rules->may_be_beside = true;
	}
}

const char *turn_reason_text(enum turn_reason reason)
{
	static const char *const texts[] = {
#define X(name, text) [TURN_REASON_##name] = text,
		TURN_REASONS(X)
#undef X
	};

	return (unsigned int)reason < TURN_REASON_COUNT ? texts[reason] : "unknown";
}

const char *turn_phase_text(enum turn_phase phase)
{
	static const char *const texts[] = {
#define X(name, text) [TURN_PHASE_##name] = text,
		TURN_PHASES(X)
#undef X
	};

	return (unsigned int)phase < TURN_PHASE_COUNT ? texts[phase] : "unknown";
}

int turn_create(const struct turn_rules *rules, uint64_t now, uint32_t number, struct turn_arbiter **ret_arbiter)
{
	struct turn_arbiter *arbiter = calloc(1, sizeof *arbiter);

	if (!arbiter)
		return -ENOMEM;
	arbiter->rules = *rules;
	arbiter->last_ns = now;
	arbiter->number = number % TURN_NUMBERS;
	arbiter->holder = arbiter->resident = -1;
	*ret_arbiter = arbiter;
	return 0;
}

void turn_destroy(struct turn_arbiter *arbiter)
{
	free(arbiter);
}

// Checks whether the terms are possible beside those of the other vGPUs. `except`: the vGPU whose terms they replace;
// -1: they are for a vGPU that is added.
static int check_terms(const struct turn_arbiter *arbiter, const struct turn_terms *terms, int except)
{
	unsigned int sum = terms->share;

	if (terms->share > 100 || (terms->is_limit && !terms->share))
		return -EINVAL;
	for (int i = 0; i < arbiter->touched; i++)
		if (i != except)
			sum += arbiter->vgpus[i].terms.share;
	return sum > 100 ? TURN_TOO_MUCH : 0;
}

int turn_join(struct turn_arbiter *arbiter, const struct turn_terms *terms, uint64_t now, unsigned int *ret_vgpu)
{
	int index = 0, outcome = check_terms(arbiter, terms, -1);

	if (outcome)
		return outcome;
	while (index < arbiter->touched && arbiter->vgpus[index].joined)
		index++;
	if (index == TURN_VGPUS)
		return TURN_FULL;
	if (index == arbiter->touched)
		arbiter->touched++;
	struct turn_vgpu *vgpu = &arbiter->vgpus[index];
	*vgpu = (struct turn_vgpu){.terms = *terms,
				   .joined = true,
				   .present_ns = now,
				   .unreported_ns = now,
				   .number = arbiter->number,
				   .grace_ns = arbiter->rules.grace_ns};
	turn_weigh(arbiter, now);
	vgpu->virtual_time = arbiter->floor[turn_is_idle_class(vgpu)];
	vgpu->allowance = turn_limit_depth(arbiter, vgpu);
	vgpu->budget = turn_budget_share(arbiter, vgpu) * (double)arbiter->rules.budget_ns;
	*ret_vgpu = (unsigned int)index;
	return 0;
}

void turn_leave(struct turn_arbiter *arbiter, unsigned int index, uint64_t now)
{
	struct turn_facts facts[TURN_VGPUS];

	for (int i = 0; i < arbiter->touched; i++)
		facts[i] = arbiter->vgpus[i].facts;
	turn_charge_time(arbiter, facts, now > arbiter->last_ns ? now : arbiter->last_ns);
	if ((int)index == arbiter->holder)
		turn_finish(arbiter);
	if ((int)index == arbiter->resident)
		arbiter->resident = -1; // the index may be given to another vGPU, whose context is not on the device
	arbiter->vgpus[index] = (struct turn_vgpu){0};
}

int turn_set(struct turn_arbiter *arbiter, unsigned int index, const struct turn_terms *terms, uint64_t now)
{
	struct turn_vgpu *vgpu = &arbiter->vgpus[index];
	int outcome = check_terms(arbiter, terms, (int)index);
	double before = turn_pace(vgpu);

	if (outcome)
		return outcome;
	vgpu->terms = *terms;
	turn_weigh(arbiter, now);
	// The vGPU is ahead of the others or behind them. Keep the difference in nanoseconds of device time. That is
	// virtual time times the weight, so a new weight needs a new virtual time.
	double floor = arbiter->floor[turn_is_idle_class(vgpu)];
	vgpu->virtual_time = floor + (vgpu->virtual_time - floor) * before / turn_pace(vgpu);
	return 0;
}

static void find_regime(struct turn_arbiter *arbiter, uint64_t now)
{
	int joined = 0, active = 0;
	bool enforce = false, limit = false;

	for (int i = 0; i < arbiter->touched; i++) {
		const struct turn_vgpu *vgpu = &arbiter->vgpus[i];
		if (!vgpu->joined)
			continue;
		joined++;
		enforce |= vgpu->terms.share || vgpu->terms.is_latency;
		limit |= vgpu->terms.is_limit;
		active += turn_is_active(arbiter, vgpu, now);
	}
	if (!enforce || (joined < 2 && !limit)) {
		if (arbiter->holder >= 0)
			turn_finish(arbiter);
		arbiter->regime = TURN_REGIME_OFF;
		arbiter->paused = false;
	} else if (active < 2 && !limit) {
		arbiter->regime = TURN_REGIME_ALONE;
	} else if (arbiter->regime != TURN_REGIME_BESIDE) {
		arbiter->regime = TURN_REGIME_TURNS;
	}
}

void turn_decide(struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now,
		 struct turn_orders *ret_orders)
{
	if (now < arbiter->last_ns)
		now = arbiter->last_ns;
	turn_charge_time(arbiter, facts, now);
	turn_weigh(arbiter, now);
	turn_watch(arbiter, facts, now);
	find_regime(arbiter, now);
	turn_beside(arbiter, now);
	if (arbiter->regime == TURN_REGIME_BESIDE)
		arbiter->paused = arbiter->urgent_ns != 0;
	else if (arbiter->regime != TURN_REGIME_OFF)
		turn_change(arbiter, now);
	turn_order(arbiter, now, ret_orders);
}

void turn_read(const struct turn_arbiter *arbiter, unsigned int index, struct turn_account *ret_account)
{
	const struct turn_vgpu *vgpu = &arbiter->vgpus[index];

	*ret_account =
		(struct turn_account){vgpu->charged_ns, vgpu->waited_ns, vgpu->turns, vgpu->weight, vgpu->virtual_time};
}

void turn_read_total(const struct turn_arbiter *arbiter, struct turn_total *ret_total)
{
	*ret_total = arbiter->total;
}

enum turn_phase turn_read_phase(const struct turn_arbiter *arbiter, unsigned int index, uint32_t *ret_number)
{
	const struct turn_vgpu *vgpu = &arbiter->vgpus[index];

	*ret_number = vgpu->number;
	if (arbiter->regime == TURN_REGIME_OFF || vgpu->terms.is_exempt)
		return TURN_PHASE_NONE;
	if ((int)index == arbiter->holder) {
		if (arbiter->drains)
			return TURN_PHASE_ENDS;
		if (arbiter->paused)
			return TURN_PHASE_PAUSED;
		return arbiter->regime == TURN_REGIME_ALONE ? TURN_PHASE_ALONE : TURN_PHASE_HOLDS;
	}
	if (vgpu->request_ns)
		return TURN_PHASE_REQUEST;
	if (arbiter->regime == TURN_REGIME_BESIDE && turn_is_beside(arbiter, vgpu) && vgpu->contexts)
		return TURN_PHASE_BESIDE;
	if (vgpu->facts.in_flight)
		return TURN_PHASE_LASTS;
	return vgpu->waits ? TURN_PHASE_WAITS : TURN_PHASE_NONE;
}

void turn_count_all(struct turn_arbiter *arbiter, bool counts)
{
	arbiter->counts_all = counts;
}
