// The arbiter, step by step.
#include "test.h"

#include <errno.h>

#include "turn/turn.h"

#define US 1000ull
#define MS 1000000ull
#define SEC 1000000000ull

static struct turn_arbiter *arbiter;
static struct turn_facts facts[TURN_VGPUS];
static struct turn_orders orders;
static struct turn_rules rules;

static void create_arbiter(enum turn_mode mode)
{
	turn_rules(mode, &rules);
	CHECK_INT(turn_create(&rules, SEC, 0, &arbiter), 0);
	memset(facts, 0, sizeof facts);
}

static unsigned int add_vgpu(unsigned int share, bool is_limit, bool is_latency)
{
	unsigned int index;

	CHECK_INT(turn_join(arbiter, &(struct turn_terms){share, is_limit, is_latency}, SEC, &index), 0);
	return index;
}

static unsigned int get_state(unsigned int vgpu)
{
	return turn_word_state(orders.gates[vgpu].word);
}

static void set_waiting(unsigned int vgpu, uint64_t now)
{
	facts[vgpu] = (struct turn_facts){.waiting = 1, .alive_ns = now, .launches = facts[vgpu].launches};
}

static void add_launch(unsigned int vgpu, uint64_t now, uint64_t ns)
{
	facts[vgpu] = (struct turn_facts){
		.in_flight = 1, .began_ns = now, .eta_ns = now + ns, .launches = facts[vgpu].launches + 1};
}

static void set_idle(unsigned int vgpu, uint64_t now)
{
	facts[vgpu].in_flight = facts[vgpu].waiting = 0;
	facts[vgpu].eta_ns = 0;
	facts[vgpu].idle_ns = now;
}

TEST(shares_above_100_percent_in_sum_are_refused)
{
	unsigned int a, b;

	create_arbiter(TURN_MODE_TIME);
	a = add_vgpu(60, false, false);
	CHECK_INT(turn_join(arbiter, &(struct turn_terms){41}, SEC, &b), TURN_TOO_MUCH);
	CHECK_INT(turn_join(arbiter, &(struct turn_terms){40}, SEC, &b), 0);
	CHECK_INT(turn_set(arbiter, a, &(struct turn_terms){61}, SEC), TURN_TOO_MUCH);
	CHECK_INT(turn_set(arbiter, a, &(struct turn_terms){50}, SEC), 0);
	CHECK_INT(turn_set(arbiter, b, &(struct turn_terms){50}, SEC), 0);
	CHECK_INT(turn_set(arbiter, a, &(struct turn_terms){101}, SEC), -EINVAL);
	CHECK_INT(turn_set(arbiter, a, &(struct turn_terms){0, .is_limit = true}, SEC), -EINVAL);
	turn_leave(arbiter, a, SEC);
	CHECK_INT(turn_set(arbiter, b, &(struct turn_terms){100}, SEC), 0);
	turn_destroy(arbiter);
}

TEST(gates_are_open_if_no_share_is_enforced)
{
	unsigned int a, b;

	create_arbiter(TURN_MODE_TIME);
	a = add_vgpu(50, false, false);
	set_waiting(a, SEC);
	turn_decide(arbiter, facts, SEC, &orders);
	CHECK(orders.regime == TURN_REGIME_OFF && orders.gates[a].word == 0 && orders.next_ns == UINT64_MAX);
	b = add_vgpu(0, false, false);
	turn_decide(arbiter, facts, SEC, &orders);
	CHECK(orders.regime != TURN_REGIME_OFF);
	CHECK_INT(turn_set(arbiter, a, &(struct turn_terms){0}, SEC), 0);
	turn_decide(arbiter, facts, SEC, &orders);
	CHECK(orders.regime == TURN_REGIME_OFF && orders.gates[a].word == 0 && orders.gates[b].word == 0);
	CHECK_INT(orders.gates[b].reason, TURN_REASON_OFF);
	CHECK_INT(turn_set(arbiter, b, &(struct turn_terms){0, .is_latency = true}, SEC), 0);
	turn_decide(arbiter, facts, SEC, &orders);
	CHECK(orders.regime != TURN_REGIME_OFF && turn_word_is(orders.gates[b].word, TURN_ANNOUNCE));
	turn_leave(arbiter, b, SEC);
	CHECK_INT(turn_set(arbiter, a, &(struct turn_terms){50, .is_limit = true}, SEC), 0);
	turn_decide(arbiter, facts, SEC, &orders);
	CHECK(orders.regime == TURN_REGIME_TURNS && get_state(a) == TURN_HELD); // a limit holds alone
	turn_destroy(arbiter);
}

// The only active vGPU has an open gate that counts. When another becomes active they take turns, until it was idle for
// a second.
TEST(gate_of_the_only_active_vgpu_opens_after_a_second)
{
	unsigned int a, b;

	create_arbiter(TURN_MODE_TIME);
	a = add_vgpu(50, false, false);
	b = add_vgpu(50, false, false);
	set_waiting(a, SEC);
	turn_decide(arbiter, facts, SEC, &orders);
	CHECK(orders.regime == TURN_REGIME_ALONE && get_state(a) == TURN_OPEN && get_state(b) == TURN_CLOSED);
	CHECK(turn_word_is(orders.gates[a].word, TURN_COUNT));
	add_launch(a, SEC + 10 * US, 500 * US);
	set_waiting(b, SEC + MS / 4);
	turn_decide(arbiter, facts, SEC + MS / 4, &orders);
	CHECK(orders.regime == TURN_REGIME_TURNS && get_state(a) == TURN_HELD && get_state(b) == TURN_CLOSED);
	CHECK(turn_word_is(orders.gates[a].word, TURN_WANTED) && orders.next == (int)b);
	set_idle(b, SEC + MS / 2);
	turn_decide(arbiter, facts, SEC + MS / 2, &orders);
	CHECK(orders.regime == TURN_REGIME_TURNS && orders.next_ns <= 2 * SEC + MS / 2 + rules.margin_ns);
	facts[a].launches++;
	turn_decide(arbiter, facts, 2 * SEC + MS, &orders);
	CHECK(orders.regime == TURN_REGIME_ALONE && get_state(a) == TURN_OPEN);
	turn_destroy(arbiter);
}

// Two with shares of 30 and 70: turns of 7.2 and 16.8 ms, of which the wake and the context switch are not charged.
TEST(turn_is_charged_from_its_first_work_to_its_last)
{
	unsigned int a, b;
	uint64_t now = SEC;
	struct turn_account account;
	struct turn_total total;

	create_arbiter(TURN_MODE_TIME);
	a = add_vgpu(30, false, false);
	b = add_vgpu(70, false, false);
	set_waiting(a, now);
	set_waiting(b, now);
	turn_decide(arbiter, facts, now, &orders);
	CHECK(orders.holder == (int)a && get_state(a) == TURN_HELD && get_state(b) == TURN_CLOSED);
	add_launch(a, now + 20 * US, MS);
	now += 30 * US;
	turn_decide(arbiter, facts, now, &orders);
	uint64_t until = SEC + 20 * US + rules.switch_ns + 72 * MS / 10;
	CHECK(orders.gates[a].until_ns == until && orders.next_ns <= until);
	facts[a].eta_ns = until + 100 * US;
	turn_decide(arbiter, facts, until, &orders);
	CHECK(get_state(a) == TURN_CLOSED && get_state(b) == TURN_CLOSED && orders.holder == (int)a);
	// The last kernel ended 90 us later, and the arbiter looks after another 10.
	set_idle(a, until + 90 * US);
	set_waiting(a, until + 90 * US);
	facts[a].idle_ns = until + 90 * US;
	turn_decide(arbiter, facts, until + 100 * US, &orders);
	CHECK(orders.holder == (int)b && get_state(b) == TURN_HELD);
	turn_read(arbiter, a, &account);
	CHECK_INT(account.charged_ns, 72 * MS / 10 + 90 * US);
	turn_read_total(arbiter, &total);
	CHECK_INT(total.overhead_ns, 20 * US + rules.switch_ns + 10 * US);
	CHECK_INT(total.quantum_ns, 12 * MS);
	// The next turn is 16.8 ms, and compensates the 90 us.
	add_launch(b, until + 150 * US, MS);
	turn_decide(arbiter, facts, until + 160 * US, &orders);
	CHECK_INT((orders.gates[b].until_ns - until - 150 * US - rules.switch_ns + 500) / 1000, 16800 + 90 * 7 / 3);
	turn_destroy(arbiter);
}

// At least half of a short turn is charged. Otherwise a tenant of short requests would cost more than it pays.
TEST(at_least_half_of_a_turn_is_charged)
{
	unsigned int a, b;
	struct turn_account account;

	create_arbiter(TURN_MODE_TIME);
	a = add_vgpu(30, false, false);
	b = add_vgpu(70, false, false);
	set_waiting(a, SEC);
	set_waiting(b, SEC);
	turn_decide(arbiter, facts, SEC, &orders);
	add_launch(a, SEC + 290 * US, 10 * US);
	set_idle(a, SEC + 300 * US);
	facts[a].began_ns = SEC + 290 * US;
	turn_decide(arbiter, facts, SEC + 300 * US, &orders);
	CHECK_INT(orders.holder, a);
	turn_decide(arbiter, facts, SEC + 400 * US, &orders);
	CHECK_INT(orders.holder, b);
	turn_read(arbiter, a, &account);
	CHECK_INT(account.charged_ns, 200 * US);
	turn_destroy(arbiter);
}

TEST(idle_holder_keeps_its_turn_for_the_grace_time)
{
	unsigned int a, b;
	uint64_t now = SEC;

	create_arbiter(TURN_MODE_TIME);
	a = add_vgpu(50, false, false);
	b = add_vgpu(50, false, false);
	set_waiting(a, now);
	set_waiting(b, now);
	turn_decide(arbiter, facts, now, &orders);
	add_launch(a, now + 20 * US, MS);
	turn_decide(arbiter, facts, now + 30 * US, &orders);
	set_idle(a, now + MS);
	turn_decide(arbiter, facts, now + MS + 10 * US, &orders);
	CHECK(orders.holder == (int)a && orders.next_ns == now + MS + rules.grace_ns);
	// A launch in time: the request is not cut in two.
	add_launch(a, now + MS + 90 * US, MS);
	turn_decide(arbiter, facts, now + MS + rules.grace_ns, &orders);
	CHECK_INT(orders.holder, a);
	set_idle(a, now + 2 * MS);
	turn_decide(arbiter, facts, now + 2 * MS + rules.grace_ns, &orders);
	CHECK_INT(orders.holder, b);
	turn_destroy(arbiter);
}

// While a request is in progress the batch gate is closed; its turn is as long as before.
TEST(request_pauses_the_turn)
{
	unsigned int a, l;
	uint64_t now = SEC, until;

	create_arbiter(TURN_MODE_TIME);
	a = add_vgpu(50, false, false);
	add_vgpu(30, false, false);
	l = add_vgpu(20, false, true);
	set_waiting(a, now);
	set_waiting(1, now);
	turn_decide(arbiter, facts, now, &orders);
	add_launch(a, now + 20 * US, MS);
	turn_decide(arbiter, facts, now + 30 * US, &orders);
	until = orders.gates[a].until_ns;
	CHECK(get_state(l) == TURN_HELD && orders.gates[l].until_ns == UINT64_MAX);
	add_launch(l, now + 2 * MS, MS);
	facts[l].is_urgent = true;
	facts[a].eta_ns = now + 3 * MS;
	turn_decide(arbiter, facts, now + 2 * MS, &orders);
	CHECK(get_state(a) == TURN_HELD && orders.next_ns == now + 2 * MS + rules.urgent_delay_ns);
	CHECK_INT(orders.gates[a].window_us, rules.urgent_window_ns / 1000);
	CHECK_INT(orders.gates[l].window_us, rules.window_ns / 1000);
	turn_decide(arbiter, facts, now + 2 * MS + rules.urgent_delay_ns, &orders);
	CHECK(get_state(a) == TURN_CLOSED && turn_word_is(orders.gates[a].word, TURN_SPIN));
	CHECK(get_state(1) == TURN_CLOSED && orders.holder == (int)a);
	facts[a] = (struct turn_facts){.waiting = 1, .idle_ns = now + 3 * MS, .alive_ns = now + 3 * MS,
				       .began_ns = now + 20 * US, .launches = facts[a].launches};
	turn_decide(arbiter, facts, now + 3 * MS, &orders);
	set_idle(l, now + 4 * MS);
	facts[l].is_urgent = false;
	turn_decide(arbiter, facts, now + 4 * MS, &orders);
	CHECK(get_state(a) == TURN_HELD && orders.holder == (int)a);
	// The turn was paused for 2 ms less the delay, and the device must switch back to its context.
	CHECK_INT(orders.gates[a].until_ns, until + 2 * MS - rules.urgent_delay_ns + rules.switch_ns);
	turn_destroy(arbiter);
}

// Starts two vGPUs. The first one has the turn since `now`, with work in flight; the second one waits.
static void begin_pair(struct turn_terms first, struct turn_terms second, uint64_t now)
{
	unsigned int index;

	create_arbiter(TURN_MODE_TIME);
	CHECK_INT(turn_join(arbiter, &first, SEC, &index), 0);
	CHECK_INT(turn_join(arbiter, &second, SEC, &index), 0);
	set_waiting(0, now);
	turn_decide(arbiter, facts, now, &orders);
	CHECK_INT(orders.holder, 0);
	add_launch(0, now, MS);
	set_waiting(1, now);
	turn_decide(arbiter, facts, now + 10 * US, &orders);
	CHECK_INT(orders.holder, 0);
}

TEST(holder_may_run_ahead_while_all_others_wait)
{
	unsigned int third, latency;

	begin_pair((struct turn_terms){30}, (struct turn_terms){30}, SEC);
	CHECK(orders.gates[0].until_ns != UINT64_MAX);
	CHECK_INT(orders.gates[0].ahead_ns, orders.gates[0].until_ns);
	CHECK_INT(orders.gates[1].ahead_ns, 0);
	CHECK_INT(turn_join(arbiter, &(struct turn_terms){20}, SEC, &third), 0);
	set_waiting(third, SEC + 20 * US);
	turn_decide(arbiter, facts, SEC + 20 * US, &orders);
	CHECK_INT(orders.gates[0].ahead_ns, orders.gates[0].until_ns);
	facts[0].in_flight = 2; // two processes, which do not know the work of each other
	turn_decide(arbiter, facts, SEC + 25 * US, &orders);
	CHECK_INT(orders.gates[0].ahead_ns, 0);
	facts[0].in_flight = 1;
	facts[third].waiting = 0; // it may come back before the turn ends
	turn_decide(arbiter, facts, SEC + 30 * US, &orders);
	CHECK_INT(orders.gates[0].ahead_ns, 0);
	set_waiting(third, SEC + 40 * US);
	turn_decide(arbiter, facts, SEC + 40 * US, &orders);
	CHECK_INT(orders.gates[0].ahead_ns, orders.gates[0].until_ns);
	CHECK_INT(turn_join(arbiter, &(struct turn_terms){.share = 20, .is_latency = true}, SEC, &latency), 0);
	add_launch(latency, SEC + 50 * US, MS);
	facts[latency].is_urgent = true;
	turn_decide(arbiter, facts, SEC + 50 * US, &orders);
	CHECK_INT(orders.gates[0].ahead_ns, 0);
	turn_destroy(arbiter);
}

// Decides at the end of the first vGPU's turn, which may move. Returns the end.
static uint64_t end_first_turn(void)
{
	uint64_t until;

	do {
		until = orders.gates[0].until_ns;
		turn_decide(arbiter, facts, until, &orders);
	} while (get_state(0) == TURN_HELD);
	return until;
}

TEST(vgpu_with_idle_time_only_loses_its_turn_at_once)
{
	begin_pair((struct turn_terms){0}, (struct turn_terms){100}, SEC);
	CHECK_INT(orders.gates[0].window_us, rules.idle_window_ns / 1000);
	CHECK_INT(get_state(0), TURN_CLOSED); // it drains
	CHECK_INT(orders.gates[0].reason, TURN_REASON_UNSHARED);
	set_idle(0, SEC + MS);
	turn_decide(arbiter, facts, SEC + MS, &orders);
	CHECK_INT(orders.holder, 1);
	add_launch(1, SEC + MS, MS);
	set_waiting(0, SEC + MS);
	turn_decide(arbiter, facts, SEC + 2 * MS, &orders);
	set_idle(1, SEC + 3 * MS);
	turn_decide(arbiter, facts, SEC + 4 * MS, &orders); // for longer than the grace
	CHECK_INT(orders.holder, 1);
	CHECK_INT(orders.next_ns, SEC + 3 * MS + rules.idle_ns);
	turn_decide(arbiter, facts, SEC + 3 * MS + rules.idle_ns, &orders);
	CHECK_INT(orders.holder, 0);
	turn_destroy(arbiter);
}

TEST(turn_ends_with_the_allowance_of_a_limit)
{
	struct turn_account account;

	begin_pair((struct turn_terms){20, .is_limit = true}, (struct turn_terms){0}, SEC);
	turn_read(arbiter, 0, &account);
	double left = .2 * (double)rules.limit_ns - (double)account.charged_ns;
	CHECK(orders.gates[0].until_ns <= SEC + 10 * US + (uint64_t)(left / .8) + US);
	turn_destroy(arbiter);
	// A limit also holds for a vGPU that is alone.
	create_arbiter(TURN_MODE_TIME);
	add_vgpu(25, true, false);
	set_waiting(0, SEC);
	turn_decide(arbiter, facts, SEC, &orders);
	CHECK_INT((orders.gates[0].until_ns - SEC + US / 2) / US, 10000 * 4 / 3);
	CHECK(turn_word_is(orders.gates[0].word, TURN_WANTED));
	add_launch(0, SEC, 20 * MS);
	turn_decide(arbiter, facts, SEC + 10 * MS, &orders);
	turn_decide(arbiter, facts, SEC + 14 * MS, &orders);
	CHECK_INT(get_state(0), TURN_CLOSED);
	set_idle(0, SEC + 14 * MS);
	facts[0].waiting = 1;
	turn_decide(arbiter, facts, SEC + 15 * MS, &orders);
	CHECK(get_state(0) == TURN_CLOSED && orders.gates[0].reason == TURN_REASON_LIMITED && orders.holder < 0);
	turn_decide(arbiter, facts, orders.next_ns, &orders);
	CHECK(get_state(0) == TURN_HELD);
	turn_destroy(arbiter);
}

// Nothing interrupts a kernel of 10 s. The next launch waits for a second.
TEST(overrun_limit_waits_no_longer_than_the_debt)
{
	uint64_t now = SEC;

	create_arbiter(TURN_MODE_TIME);
	add_vgpu(25, true, false);
	set_waiting(0, now);
	turn_decide(arbiter, facts, now, &orders);
	add_launch(0, now, 10 * SEC);
	for (; now < 11 * SEC; now = orders.next_ns)
		turn_decide(arbiter, facts, now, &orders);
	set_idle(0, now);
	facts[0].waiting = 1;
	turn_decide(arbiter, facts, now, &orders);
	CHECK_INT(get_state(0), TURN_CLOSED);
	for (uint64_t end = now + rules.debt_ns + rules.limit_ns + MS; now < end; now = orders.next_ns)
		turn_decide(arbiter, facts, now, &orders);
	CHECK_INT(get_state(0), TURN_HELD);
	turn_destroy(arbiter);
}

// A request of 10 s uses up far more than the budget, of which twice its depth is paid.
TEST(overrun_budget_recovers_in_bounded_time)
{
	uint64_t now = SEC;
	unsigned int l;

	create_arbiter(TURN_MODE_TIME);
	l = add_vgpu(20, false, true);
	add_vgpu(80, false, false);
	add_launch(l, now, 10 * SEC);
	facts[l].is_urgent = true;
	for (; now < 11 * SEC; now = orders.next_ns) {
		set_waiting(1, now);
		turn_decide(arbiter, facts, now, &orders);
	}
	CHECK_INT(orders.gates[l].reason, TURN_REASON_BUDGET);
	set_idle(l, now);
	facts[l].is_urgent = false;
	for (uint64_t end = now + 2 * rules.budget_ns + 10 * MS; now < end; now += MS) {
		set_waiting(1, now);
		turn_decide(arbiter, facts, now, &orders);
	}
	CHECK(turn_word_is(orders.gates[l].word, TURN_ANNOUNCE));
	turn_destroy(arbiter);
}

// What a vGPU was charged before does not count against a new limit or budget.
TEST(new_terms_start_with_full_allowance_and_budget)
{
	begin_pair((struct turn_terms){50}, (struct turn_terms){50}, SEC);
	turn_decide(arbiter, facts, SEC + 200 * MS, &orders);
	turn_decide(arbiter, facts, SEC + 400 * MS, &orders);
	CHECK_INT(turn_set(arbiter, 0, &(struct turn_terms){50, .is_limit = true}, SEC + 401 * MS), 0);
	turn_decide(arbiter, facts, SEC + 401 * MS, &orders);
	CHECK(orders.gates[0].reason != TURN_REASON_LIMITED);
	CHECK_INT(turn_set(arbiter, 0, &(struct turn_terms){50, .is_latency = true}, SEC + 402 * MS), 0);
	turn_decide(arbiter, facts, SEC + 402 * MS, &orders);
	CHECK(orders.gates[0].reason != TURN_REASON_BUDGET);
	turn_destroy(arbiter);
}

// The process has synchronized in a way that proves nothing, and does not report that its work has ended.
TEST(unreported_request_ends_after_its_estimate)
{
	unsigned int batch, latency;
	uint64_t now = SEC + 500 * US, began = now;

	create_arbiter(TURN_MODE_TIME);
	batch = add_vgpu(60, false, false);
	latency = add_vgpu(40, false, true);
	add_launch(batch, SEC, MS);
	turn_decide(arbiter, facts, SEC, &orders);
	add_launch(latency, now, 100 * US);
	facts[latency].is_urgent = true;
	turn_decide(arbiter, facts, now, &orders);
	set_waiting(batch, now);
	turn_decide(arbiter, facts, now += rules.urgent_delay_ns, &orders);
	CHECK_INT(get_state(batch), TURN_CLOSED);
	for (int i = 0; i < 3 && get_state(batch) == TURN_CLOSED; i++) {
		now = orders.next_ns;
		if (facts[latency].eta_ns && now >= facts[latency].eta_ns + rules.margin_ns) // as turn_page_read() does
			set_idle(latency, facts[latency].eta_ns);
		turn_decide(arbiter, facts, now, &orders);
	}
	CHECK_INT(get_state(batch), TURN_HELD);
	CHECK(now - began <= MS);
	turn_destroy(arbiter);
}

TEST(single_latency_vgpu_has_an_open_gate)
{
	unsigned int l, other;

	create_arbiter(TURN_MODE_TIME);
	l = add_vgpu(50, false, true);
	other = add_vgpu(50, false, false);
	turn_decide(arbiter, facts, SEC, &orders);
	CHECK(get_state(l) == TURN_HELD && turn_word_is(orders.gates[l].word, TURN_ANNOUNCE)); // it is asleep
	add_launch(l, SEC, MS);
	facts[l].is_urgent = true;
	turn_decide(arbiter, facts, SEC + 10 * US, &orders);
	CHECK(get_state(l) == TURN_OPEN && get_state(other) == TURN_CLOSED);
	set_waiting(other, SEC + 20 * US);
	turn_decide(arbiter, facts, SEC + 20 * US, &orders);
	CHECK(get_state(l) == TURN_HELD && get_state(other) == TURN_CLOSED);
	turn_destroy(arbiter);
}

// A vGPU with an open gate rings no bell. If the gate of a sleeping vGPU stayed open, the arbiter would not notice new
// launches.
TEST(sleeping_vgpu_has_no_open_gate_beside_an_active_one)
{
	unsigned int l, batch;

	create_arbiter(TURN_MODE_TIME);
	l = add_vgpu(40, false, true);
	batch = add_vgpu(60, false, false);
	set_waiting(batch, SEC);
	turn_decide(arbiter, facts, SEC, &orders);
	CHECK(orders.regime == TURN_REGIME_ALONE && get_state(batch) == TURN_OPEN);
	set_idle(batch, SEC + MS);
	turn_decide(arbiter, facts, 3 * SEC, &orders);
	CHECK(get_state(batch) == TURN_OPEN); // no other vGPU is active, so it need not wait when it wakes
	add_launch(l, 3 * SEC, MS);
	facts[l].is_urgent = true;
	turn_decide(arbiter, facts, 3 * SEC + 10 * US, &orders);
	CHECK(get_state(l) == TURN_OPEN && get_state(batch) == TURN_CLOSED);
	set_waiting(batch, 3 * SEC + 20 * US);
	turn_decide(arbiter, facts, 3 * SEC + 20 * US, &orders);
	CHECK(orders.regime == TURN_REGIME_TURNS && turn_word_is(orders.gates[l].word, TURN_ANNOUNCE));
	turn_destroy(arbiter);
}

TEST(arbiter_does_not_wait_longer_than_the_patience)
{
	begin_pair((struct turn_terms){50}, (struct turn_terms){50}, SEC);
	facts[0].eta_ns = 2 * SEC;
	end_first_turn();
	CHECK(orders.holder == 1 && orders.gates[0].reason == TURN_REASON_RESIDENT);
	CHECK(orders.reason == TURN_REASON_RESIDENT && orders.reason_vgpu == 0);
	turn_destroy(arbiter);
}

TEST(arbiter_waits_half_of_the_estimate_longer)
{
	uint64_t until;

	begin_pair((struct turn_terms){50}, (struct turn_terms){50}, SEC);
	facts[0].eta_ns = SEC + 18 * MS;
	until = end_first_turn();
	CHECK(orders.next_ns == facts[0].eta_ns - rules.spin_ns && !orders.poll);
	turn_decide(arbiter, facts, orders.next_ns, &orders);
	CHECK(orders.next_ns == facts[0].eta_ns + rules.margin_ns && orders.poll);
	CHECK(turn_word_is(orders.gates[1].word, TURN_SPIN));
	uint64_t longest = facts[0].eta_ns + (facts[0].eta_ns - until) / 2; // half of the estimate longer
	turn_decide(arbiter, facts, longest - US, &orders);
	CHECK_INT(orders.holder, 0);
	turn_decide(arbiter, facts, longest, &orders);
	CHECK_INT(orders.holder, 1);
	turn_destroy(arbiter);
}

TEST(checkpointed_vgpu_loses_its_turn)
{
	begin_pair((struct turn_terms){50}, (struct turn_terms){50}, SEC);
	CHECK_INT(turn_set(arbiter, 0, &(struct turn_terms){50, .is_exempt = true}, SEC + MS), 0);
	turn_decide(arbiter, facts, SEC + MS, &orders);
	CHECK(orders.holder == 1 && orders.gates[0].word == 0);
	turn_destroy(arbiter);
}

// A batch vGPU that has the turn becomes a latency vGPU: it needs no turn.
TEST(latency_vgpu_within_its_budget_has_no_turn)
{
	begin_pair((struct turn_terms){50}, (struct turn_terms){50}, SEC);
	CHECK_INT(turn_set(arbiter, 0, &(struct turn_terms){50, .is_latency = true}, SEC + MS), 0);
	turn_decide(arbiter, facts, SEC + MS, &orders);
	CHECK(orders.holder == 1 && get_state(0) == TURN_HELD);
	CHECK(turn_word_is(orders.gates[0].word, TURN_ANNOUNCE));
	turn_destroy(arbiter);
}

TEST(beat_continues_while_a_thread_waits)
{
	begin_pair((struct turn_terms){50}, (struct turn_terms){50}, SEC);
	// The first vGPU launches nothing in its second turn; then the second vGPU goes idle.
	set_idle(0, SEC + MS);
	turn_decide(arbiter, facts, SEC + 2 * MS, &orders);
	CHECK_INT(orders.holder, 1);
	add_launch(1, SEC + 2 * MS, MS);
	set_waiting(0, SEC + 2 * MS);
	turn_decide(arbiter, facts, SEC + 3 * MS, &orders);
	set_idle(1, SEC + 3 * MS);
	turn_decide(arbiter, facts, SEC + 4 * MS, &orders);
	CHECK_INT(orders.holder, 0);
	set_waiting(1, SEC + 4 * MS);
	turn_decide(arbiter, facts, SEC + 7 * MS, &orders);
	CHECK(orders.holder == 1 && orders.gates[0].reason == TURN_REASON_SILENT);
	facts[1].launches++;
	set_idle(1, SEC + 8 * MS);
	turn_decide(arbiter, facts, SEC + 8 * MS, &orders);
	CHECK(orders.next_ns <= SEC + 8 * MS + TURN_BEAT_NS / 2);
	turn_destroy(arbiter);
}

// A vGPU stays ahead by the same time of its own: with five times the share that is a fifth of the virtual time.
TEST(new_share_keeps_the_time_that_a_vgpu_is_ahead)
{
	struct turn_account first, second;

	begin_pair((struct turn_terms){10}, (struct turn_terms){20}, SEC);
	turn_decide(arbiter, facts, SEC + 50 * MS, &orders);
	set_idle(0, SEC + 50 * MS);
	turn_decide(arbiter, facts, SEC + 51 * MS, &orders);
	CHECK_INT(orders.holder, 1);
	turn_read(arbiter, 0, &first);
	turn_read(arbiter, 1, &second);
	double ahead = first.virtual_ns - second.virtual_ns;
	CHECK(ahead > 400e6 && second.virtual_ns < 1e6);
	CHECK_INT(turn_set(arbiter, 0, &(struct turn_terms){50}, SEC + 51 * MS), 0);
	turn_read(arbiter, 0, &first);
	CHECK((first.virtual_ns - second.virtual_ns) / ahead > .199 &&
	      (first.virtual_ns - second.virtual_ns) / ahead < .201);
	turn_destroy(arbiter);
}

TEST(active_vgpus_without_a_share_divide_the_rest)
{
	struct turn_account account;

	create_arbiter(TURN_MODE_TIME);
	add_vgpu(30, false, false);
	add_vgpu(0, false, false);
	add_vgpu(0, false, false);
	for (unsigned int i = 0; i < 3; i++)
		set_waiting(i, SEC);
	turn_decide(arbiter, facts, SEC, &orders);
	turn_decide(arbiter, facts, SEC + MS, &orders);
	turn_read(arbiter, 1, &account);
	CHECK_INT(account.weight * 100 + .5, 35);
	set_idle(2, SEC + MS);
	turn_decide(arbiter, facts, SEC + MS + rules.active_ns - 1, &orders);
	turn_decide(arbiter, facts, SEC + MS + 1 + rules.active_ns, &orders);
	turn_read(arbiter, 1, &account);
	CHECK_INT(account.weight * 100 + .5, 70);
	turn_destroy(arbiter);
}

TEST(share_changed_in_a_turn_moves_its_end)
{
	unsigned int a;
	uint64_t now = SEC;

	create_arbiter(TURN_MODE_TIME);
	a = add_vgpu(20, false, false);
	add_vgpu(50, false, false);
	set_waiting(0, now);
	set_waiting(1, now);
	turn_decide(arbiter, facts, now, &orders);
	add_launch(a, now, MS);
	turn_decide(arbiter, facts, now + 20 * US, &orders);
	CHECK_INT(orders.gates[a].until_ns, now + rules.switch_ns + 24 * MS * 2 / 7);
	CHECK_INT(turn_set(arbiter, a, &(struct turn_terms){50}, now + 30 * US), 0);
	turn_decide(arbiter, facts, now + 30 * US, &orders);
	CHECK_INT(orders.gates[a].until_ns, now + rules.switch_ns + 12 * MS);
	turn_destroy(arbiter);
}

TEST(every_reason_has_a_text)
{
	for (unsigned int i = 0; i < TURN_REASON_COUNT; i++)
		CHECK(strlen(turn_reason_text((enum turn_reason)i)) > 5);
	CHECK_STR(turn_reason_text((enum turn_reason)TURN_REASON_COUNT), "unknown");
}
