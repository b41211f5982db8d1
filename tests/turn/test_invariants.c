// Checks invariants with random tenants that start, change their shares, stop and are killed, and with hostile slots.
// INVARIANT_SEEDS sets the number of random worlds.
#include "test.h"

#include <errno.h>
#include <math.h>

#include "model.h"

static unsigned int read_seed_count(unsigned int usual)
{
	const char *asked = getenv("INVARIANT_SEEDS");

	return asked ? (unsigned int)atoi(asked) : usual;
}

static uint64_t random_state;
static uint64_t draw(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

// ---- worlds of the model

enum { MOST = 8, ARRIVALS = 8, VGPUS = MOST + ARRIVALS, WINDOWS = 64 };

struct world {
	unsigned int count, share[VGPUS], process[VGPUS];
	bool latency[VGPUS], limit[VGPUS], alive[VGPUS], stopped[VGPUS];
	int holder;
	uint64_t seed, decisions, arrivals;
	// What each vGPU was charged up to the last decision, and the sum of these charges.
	uint64_t account[VGPUS], total;
	bool counted[VGPUS];
	// What each vGPU was charged up to some earlier decisions, to check limits.
	struct {
		uint64_t at, charged;
	} charged[VGPUS][WINDOWS];
	unsigned int charged_count[VGPUS];
	// The most work that may be in flight: the longest kernels of 3 processes, and a window of launches whose
	// estimates are wrong.
	uint64_t overrun;
};

#define WORLD_CHECK(condition)                                                                 \
	do {                                                                                   \
		if (!(condition))                                                              \
			FAIL("world %llu, decision %llu: %s", (unsigned long long)world->seed, \
			     (unsigned long long)world->decisions, #condition);                \
	} while (0)

// Returns whether the vGPU waits at a closed gate and may get the turn. It may not if it has no weight (it gets idle
// time only), or if its orders give another reason against it, such as its limit.
static bool wants_turn(const struct model *model, const struct world *world, unsigned int i)
{
	const struct turn_gate *gate = model_gate(model, i);
	struct turn_account account;

	if (!world->alive[i] || !model_facts(model, i)->waiting || turn_word_state(gate->word) != TURN_CLOSED)
		return false;
	model_account(model, i, &account);
	if (account.weight <= 0)
		return false; // idle time only
	return gate->reason == TURN_REASON_NONE || gate->reason == TURN_REASON_ALONE;
}

// Checks that the device's time adds up, and that the sum of all charges is right. The last charge of a vGPU that has
// left cannot be read any more.
static void check_accounts(const struct model *model, struct world *world)
{
	uint64_t sum = 0;
	bool left = false;
	struct turn_account account;
	struct turn_total total;

	model_total(model, &total);
	WORLD_CHECK(total.charged_ns + total.overhead_ns + total.idle_ns == total.elapsed_ns + total.beside_ns);
	for (unsigned int i = 0; i < world->count; i++) {
		bool present = model_is_present(model, i);
		left |= world->counted[i] && !present;
		if (present) {
			model_account(model, i, &account);
			sum += account.charged_ns - (world->counted[i] ? world->account[i] : 0);
			world->account[i] = account.charged_ns;
		}
		world->counted[i] = present;
	}
	WORLD_CHECK(left ? sum <= total.charged_ns - world->total : sum == total.charged_ns - world->total);
	world->total = total.charged_ns;
}

static bool is_urgent(const struct model *model, const struct world *world)
{
	for (unsigned int i = 0; i < world->count; i++)
		if (world->alive[i] && turn_word_is(model_gate(model, i)->word, TURN_ANNOUNCE) &&
		    (model_facts(model, i)->is_urgent || model_facts(model, i)->in_flight))
			return true;
	return false;
}

// Checks that at most one vGPU has the turn, and that some vGPU has it if any vGPU wants it. The turn must pass to the
// vGPU with the least virtual time.
static void check_turns(const struct model *model, const struct world *world)
{
	const struct turn_orders *orders = model_orders(model);
	unsigned int open = 0;
	struct turn_account own, other;

	for (unsigned int i = 0; i < world->count; i++) {
		uint32_t word = world->alive[i] ? model_gate(model, i)->word : turn_word(0, TURN_CLOSED, 0);
		open += turn_word_state(word) != TURN_CLOSED && !turn_word_is(word, TURN_ANNOUNCE);
	}
	if (orders->regime == TURN_REGIME_OFF || orders->regime == TURN_REGIME_BESIDE)
		return;
	WORLD_CHECK(open <= 1);
	for (unsigned int i = 0; i < world->count && orders->holder < 0; i++)
		WORLD_CHECK(!wants_turn(model, world, i) || is_urgent(model, world));
	if (orders->holder < 0 || orders->holder == world->holder)
		return;
	for (unsigned int i = 0; i < world->count; i++) {
		if (!world->alive[i] || model_gate(model, i) != &orders->gates[orders->holder])
			continue;
		model_account(model, i, &own);
		for (unsigned int j = 0; j < world->count; j++) {
			if (j == i || !wants_turn(model, world, j))
				continue;
			model_account(model, j, &other);
			WORLD_CHECK(own.weight > 0 && own.virtual_ns <= other.virtual_ns + 1);
		}
	}
}

// Checks that in 100 ms, a vGPU exceeds its limit by no more than a quantum and the kernels in flight.
static void check_limits(const struct model *model, struct world *world, uint64_t now)
{
	struct turn_account account;
	struct turn_rules rules;

	turn_rules(TURN_MODE_TIME, &rules);
	for (unsigned int i = 0; i < world->count; i++) {
		if (!world->limit[i] || !world->alive[i] || world->latency[i])
			continue;
		// If work stays on the device after the turn, or a process is stopped, nothing removes that work. So
		// the vGPU's limit cannot hold.
		if (model_gate(model, i)->reason == TURN_REASON_RESIDENT ||
		    model_gate(model, i)->reason == TURN_REASON_STOPPED)
			world->charged_count[i] = 0;
		model_account(model, i, &account);
		unsigned int count = world->charged_count[i];
		if (!count || now - world->charged[i][(count - 1) % WINDOWS].at >= 5 * MS) {
			world->charged[i][count % WINDOWS].at = now;
			world->charged[i][count % WINDOWS].charged = account.charged_ns;
			world->charged_count[i]++;
		}
		for (unsigned int k = 0; k < WINDOWS && k < world->charged_count[i]; k++) {
			uint64_t span = now - world->charged[i][k].at;
			double most = (double)span * world->share[i] / 100 + (double)rules.quantum_ns +
				      (double)world->overrun;
			if (span <= 100 * MS)
				WORLD_CHECK((double)(account.charged_ns - world->charged[i][k].charged) <= most);
		}
	}
}

static void check_decision(struct model *model, void *user)
{
	struct world *world = user;
	const struct turn_orders *orders = model_orders(model);

	world->decisions++;
	WORLD_CHECK(orders->next_ns > model_now(model));
	check_accounts(model, world);
	check_turns(model, world);
	check_limits(model, world, model_now(model));
	world->holder = orders->holder;
}

static struct program draw_program(void)
{
	static const uint64_t kernels[] = {5, 20, 50, 200, 500, 1000};
	struct program program = {.launches = (unsigned int)(1 + draw(60)),
				  .host_ns = (3 + draw(20)) * US,
				  .kernel_ns = kernels[draw(6)] * US,
				  .jitter = .1};

	if (draw(3) == 0)
		program.think_ns = draw(20000) * US;
	if (draw(4) == 0)
		program.copy_ns = draw(500) * US;
	program.never_waits = program.think_ns > 1 * MS && draw(3) == 0;
	return program;
}

static unsigned int find_share_left(const struct world *world)
{
	unsigned int left = 100;

	for (unsigned int i = 0; i < world->count; i++)
		left -= world->alive[i] ? world->share[i] : 0;
	return left;
}

static void add_vgpu(struct model *model, struct world *world)
{
	unsigned int i = world->count, left = find_share_left(world);
	struct program program = draw_program();

	world->share[i] = draw(4) ? (unsigned int)draw(left + 1) : 0;
	if (draw(6) == 0)
		world->share[i] = left; // takes the whole rest, so vGPUs without a share get idle time only
	world->latency[i] = draw(5) == 0;
	world->limit[i] = world->share[i] && draw(5) == 0;
	world->alive[i] = true;
	world->count++;
	unsigned int vgpu = model_add_vgpu(model, world->share[i], world->latency[i], world->limit[i]);
	world->process[i] = model_start_process(model, vgpu, &program);
	for (uint64_t more = draw(3) ? 0 : 1 + draw(2); more; more--) {
		program = draw_program();
		model_start_process(model, i, &program);
	}
}

static void disturb_world(struct model *model, struct world *world)
{
	unsigned int i = (unsigned int)draw(world->count);

	if (draw(5) == 0 && world->count < VGPUS) {
		add_vgpu(model, world);
		world->arrivals++;
	}
	if (!world->alive[i])
		return;
	switch (draw(6)) {
	case 0:
		world->stopped[i] = !world->stopped[i];
		(world->stopped[i] ? model_stop : model_continue)(model, world->process[i]);
		break;
	case 1: // the vGPU gives up its share, or part of it
		world->share[i] = (unsigned int)draw(world->share[i] + 1);
		world->limit[i] = world->limit[i] && world->share[i];
		world->charged_count[i] = 0;
		model_set_terms(model, i, &(struct turn_terms){world->share[i], world->limit[i], world->latency[i]});
		break;
	case 2:
		model_set_speed(model, .5 + .1 * (double)draw(8));
		break;
	case 3:
		if (draw(4) == 0)
			model_kill(model, world->process[i]);
		break;
	default:
		model_ring(model); // rings the arbiter's bell without a reason
	}
}

TEST(invariants_hold_with_random_tenants)
{
	uint64_t decisions = 0, arrivals = 0;

	for (unsigned int seed = 1; seed <= read_seed_count(60); seed++) {
		static struct world world;
		struct model_options options;
		random_state = seed * 0x9e3779b97f4a7c15u;
		world = (struct world){.seed = seed, .holder = -1, .overrun = 16 * MS};
		model_options(draw(3) ? TURN_MODE_TIME : TURN_MODE_MPS, &options);
		options.wake_ns = (draw(3) ? 15 : 200) * US;
		options.estimate = .5 + .25 * (double)draw(5);
		options.sees_stops = draw(2);
		options.seed = seed;
		struct model *model = model_create(&options);
		for (uint64_t i = 2 + draw(MOST - 1); i; i--)
			add_vgpu(model, &world);
		model_set_watch(model, check_decision, &world);
		for (int step = 0; step < 20; step++) {
			model_run(model, (1 + draw(40)) * MS);
			disturb_world(model, &world);
			// The vGPU leaves when its last process is dead.
			for (unsigned int i = 0; i < world.count; i++)
				world.alive[i] &= model_is_present(model, i);
		}
		decisions += world.decisions;
		arrivals += world.arrivals;
		model_destroy(model);
	}
	CHECK(decisions > 160 * read_seed_count(60) && arrivals > read_seed_count(60));
}

// Checks how long tenants wait while others come and go. All kernels fit into turns. So a wait lasts at most for a turn
// of each vGPU, and after each turn for the time that the arbiter waits for work (`patience_ns`).
TEST(waiting_is_bounded)
{
	for (unsigned int seed = 1; seed <= read_seed_count(20); seed++) {
		struct model_options options;
		unsigned int count, started = 0, most;
		random_state = seed * 0x9e3779b97f4a7c15u;
		model_options(draw(2) ? TURN_MODE_TIME : TURN_MODE_MPS, &options);
		options.seed = seed;
		options.rules.may_be_beside = false;
		count = 2 + (unsigned int)draw(7);
		most = 3 * count;
		struct model *model = model_create(&options);
		for (int step = 0; step < 40; step++) {
			struct program program = draw_program();
			program.kernel_ns = (5 + draw(400)) * US;
			// The program must synchronize. Otherwise, while it is alone, it would have more work in flight
			// than fits into a turn.
			program.never_waits = false;
			unsigned int present = 0, oldest = started;
			for (unsigned int i = started; i > 0; i--)
				if (model_is_present(model, i - 1)) {
					oldest = i - 1;
					present++;
				}
			if (present == count && draw(4) == 0)
				model_kill(model, oldest);
			else if (present < count && started < most && draw(2)) {
				model_start_process(model, model_add_vgpu(model, 100 / count, false, false), &program);
				started++;
			}
			model_run(model, (1 + draw(150)) * MS);
		}
		uint64_t mean = options.rules.round_ns / count;
		if (mean < options.rules.quantum_least_ns)
			mean = options.rules.quantum_least_ns;
		for (unsigned int i = 0; i < started; i++)
			if (model_process(model, i)->longest_wait_ns > count * (mean + options.rules.patience_ns))
				FAIL("world %u: tenant %u of %u waited for %.1f ms", seed, i, count,
				     (double)model_process(model, i)->longest_wait_ns / 1e6);
		CHECK(started > 2);
		model_destroy(model);
	}
}

// Tests vGPUs that always have work. The device must be idle during handovers only, and equal shares must get equal
// parts.
TEST(full_loads_keep_the_device_busy)
{
	static const unsigned int counts[] = {2, 3, 5, 10, 24, 48};

	for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
		const struct program train = {.launches = 20, .host_ns = 8 * US, .kernel_ns = 200 * US};
		struct model_options options;
		uint64_t busy = 0, least = UINT64_MAX, most = 0;
		model_options(TURN_MODE_TIME, &options);
		struct model *model = model_create(&options);
		for (unsigned int i = 0; i < counts[k]; i++) {
			unsigned int vgpu = model_add_vgpu(model, i ? 0 : 100 / counts[k], false, false);
			model_start_process(model, vgpu, &train);
		}
		model_run(model, SEC);
		model_reset_figures(model);
		model_run(model, 6 * SEC);
		for (unsigned int i = 0; i < counts[k]; i++) {
			uint64_t ns = model_process(model, i)->gpu_ns;
			busy += ns;
			least = ns < least ? ns : least;
			most = ns > most ? ns : most;
		}
		CHECK(busy >= (counts[k] <= 5 ? 98.2 : 96.5) / 100 * 6 * SEC);
		if (100 % counts[k] == 0 && (double)(most - least) > .08 * (double)most)
			FAIL("%u tenants: %.1f to %.1f ms", counts[k], (double)least / 1e6, (double)most / 1e6);
		model_destroy(model);
	}
}

// ---- hostile slots

static uint64_t draw_time(uint64_t now)
{
	switch (draw(6)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX - draw(3);
	case 2:
		return draw(UINT64_MAX);
	default:
		return now + draw(30 * MS) - 15 * MS;
	}
}

static void draw_slot(struct turn_slot *slot, uint64_t now)
{
	slot->waiting = draw(3) ? (uint32_t)draw(2) : (uint32_t)draw(UINT32_MAX);
	slot->watching = (uint32_t)draw(2);
	slot->urgent = (uint32_t)draw(2);
	slot->turn = (uint32_t)(draw(2) ? draw(64) : draw(UINT32_MAX));
	slot->eta_ns = draw_time(now);
	slot->began_ns = draw_time(now);
	slot->idle_ns = draw_time(now);
	slot->alive_ns = draw_time(now);
	slot->launches = draw(2) ? slot->launches + draw(9) : draw(UINT64_MAX);
	slot->gpu_ns = draw(2) ? slot->gpu_ns + draw(9 * MS) : draw(UINT64_MAX);
}

struct lies {
	struct turn_arbiter *arbiter;
	struct turn_page pages[MOST];
	struct turn_slot slots[MOST];
	struct turn_terms terms[MOST];
	unsigned int index[MOST];
	bool joined[MOST];
	uint64_t charged[TURN_VGPUS];
};

static unsigned int sum_shares(const struct lies *lies, unsigned int except)
{
	unsigned int sum = 0;

	for (unsigned int i = 0; i < MOST; i++)
		sum += lies->joined[i] && i != except ? lies->terms[i].share : 0;
	return sum;
}

// Joins a vGPU to the arbiter, removes it, or changes its terms.
static void change_membership(struct lies *lies, uint64_t now)
{
	unsigned int i = (unsigned int)draw(MOST);
	struct turn_terms terms = {(unsigned int)draw(60), draw(4) == 0, draw(3) == 0, draw(9) == 0};
	int outcome, want = sum_shares(lies, i) + terms.share > 100 ? TURN_TOO_MUCH : 0;

	if (terms.is_limit && !terms.share)
		want = -EINVAL;
	if (!lies->joined[i]) {
		outcome = turn_join(lies->arbiter, &terms, now, &lies->index[i]);
		lies->joined[i] = outcome == 0;
		lies->charged[lies->index[i]] = 0;
	} else if (draw(2)) {
		outcome = turn_set(lies->arbiter, lies->index[i], &terms, now);
	} else {
		turn_leave(lies->arbiter, lies->index[i], now);
		lies->joined[i] = false;
		return;
	}
	CHECK_INT(outcome, want);
	if (!outcome)
		lies->terms[i] = terms;
}

static void check_lies(struct lies *lies, const struct turn_orders *orders, uint64_t now)
{
	struct turn_total total;
	struct turn_account account;
	unsigned int open = 0;

	CHECK(orders->next_ns > now);
	turn_read_total(lies->arbiter, &total);
	CHECK(total.charged_ns + total.overhead_ns + total.idle_ns == total.elapsed_ns + total.beside_ns);
	for (unsigned int i = 0; i < MOST; i++) {
		if (!lies->joined[i])
			continue;
		uint32_t word = orders->gates[lies->index[i]].word;
		CHECK(turn_word_state(word) <= TURN_CLOSED);
		open += turn_word_state(word) != TURN_CLOSED && !turn_word_is(word, TURN_ANNOUNCE) &&
			!lies->terms[i].is_exempt;
		turn_read(lies->arbiter, lies->index[i], &account);
		CHECK(isfinite(account.virtual_ns) && account.weight >= 0 && account.weight <= 1);
		CHECK(account.charged_ns >= lies->charged[lies->index[i]]);
		lies->charged[lies->index[i]] = account.charged_ns;
	}
	CHECK(open <= 1 || orders->regime == TURN_REGIME_OFF || orders->regime == TURN_REGIME_BESIDE);
}

TEST(invariants_hold_with_hostile_slots)
{
	for (unsigned int seed = 1; seed <= read_seed_count(20); seed++) {
		static struct lies lies;
		struct turn_rules rules;
		struct turn_facts facts[TURN_VGPUS];
		struct turn_orders orders;
		uint64_t now = SEC;
		random_state = seed * 0x9e3779b97f4a7c15u;
		memset(&lies, 0, sizeof lies);
		turn_rules(draw(2) ? TURN_MODE_TIME : TURN_MODE_MPS, &rules);
		CHECK_INT(turn_create(&rules, now, 1, &lies.arbiter), 0);
		for (int step = 0; step < 2000; step++) {
			now += draw(4) ? draw(300 * US) : draw(30 * MS);
			if (draw(40) == 0)
				change_membership(&lies, now);
			for (unsigned int i = 0; i < MOST; i++) {
				if (!lies.joined[i])
					continue;
				if (draw(3) == 0)
					draw_slot(&lies.slots[i], now);
				turn_page_read(&lies.pages[i], &lies.slots[i], 1, NULL, rules.margin_ns, now,
					       &facts[lies.index[i]]);
			}
			turn_decide(lies.arbiter, facts, now, &orders);
			check_lies(&lies, &orders, now);
			for (unsigned int i = 0; i < MOST; i++)
				if (lies.joined[i])
					turn_page_write(&lies.pages[i], &orders.gates[lies.index[i]], now);
		}
		turn_destroy(lies.arbiter);
	}
}
