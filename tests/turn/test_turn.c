// Tests the arbiter step by step: when the vGPUs take turns, when launches need no turn (the gate stays open), and how
// long turns are.
#include "arbiter.h"

#include <errno.h>

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
	// A limit needs turns even for a vGPU that runs alone.
	CHECK(orders.regime == TURN_REGIME_TURNS && get_state(a) == TURN_HELD);
	turn_destroy(arbiter);
}

TEST(gates_count_launches_without_a_share_while_a_trace_wants_it)
{
	unsigned int a;

	create_arbiter(TURN_MODE_TIME);
	a = add_vgpu(0, false, false);
	turn_count_all(arbiter, true);
	turn_decide(arbiter, facts, SEC, &orders);
	CHECK(orders.regime == TURN_REGIME_OFF && get_state(a) == TURN_OPEN);
	CHECK(turn_word_is(orders.gates[a].word, TURN_COUNT) && orders.next_ns == UINT64_MAX);
	turn_count_all(arbiter, false);
	turn_decide(arbiter, facts, SEC, &orders);
	CHECK_INT(orders.gates[a].word, 0);
	turn_destroy(arbiter);
}

static enum turn_phase phase_of(unsigned int vgpu)
{
	uint32_t number;

	return turn_read_phase(arbiter, vgpu, &number);
}

TEST(phases_tell_who_has_the_device)
{
	const struct turn_terms half = {50};
	uint32_t first, second;

	begin_pair(half, half, SEC);
	CHECK_INT(turn_read_phase(arbiter, 0, &first), TURN_PHASE_HOLDS);
	CHECK_INT(phase_of(1), TURN_PHASE_WAITS);
	add_launch(0, SEC, 20 * MS); // this work will still be in flight at the end of the turn
	uint64_t end = end_first_turn();
	CHECK_INT(phase_of(0), TURN_PHASE_ENDS);
	CHECK_INT(phase_of(1), TURN_PHASE_WAITS);
	set_idle(0, end + MS);
	turn_decide(arbiter, facts, end + MS, &orders);
	CHECK_INT(phase_of(0), TURN_PHASE_NONE);
	CHECK_INT(turn_read_phase(arbiter, 1, &second), TURN_PHASE_HOLDS);
	CHECK(first != second);
	set_idle(1, end + 2 * MS);
	turn_decide(arbiter, facts, end + 5 * SEC, &orders);
	CHECK_INT(turn_set(arbiter, 0, &(struct turn_terms){0}, end + 5 * SEC), 0);
	CHECK_INT(turn_set(arbiter, 1, &(struct turn_terms){0}, end + 5 * SEC), 0);
	turn_decide(arbiter, facts, end + 6 * SEC, &orders);
	CHECK_INT(phase_of(1), TURN_PHASE_NONE);
	CHECK_STR(turn_phase_text(TURN_PHASE_HOLDS), "holds");
	turn_destroy(arbiter);
}

// Tests a vGPU that is the only active one: its gate is open, and it only counts launches. When another vGPU becomes
// active, both take turns, until the other one has been idle for a second.
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

// Tests two vGPUs with shares of 30 and 70, whose turns are 7.2 and 16.8 ms. The wake and the context switch must not
// be charged.
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
	// The last kernel ends 90 us after the turn, and the arbiter reads the facts another 10 us later.
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
	// The next turn would take 16.8 ms. It becomes longer, to make up for the 90 us that the first vGPU had too
	// much.
	add_launch(b, until + 150 * US, MS);
	turn_decide(arbiter, facts, until + 160 * US, &orders);
	CHECK_INT((orders.gates[b].until_ns - until - 150 * US - rules.switch_ns + 500) / 1000, 16800 + 90 * 7 / 3);
	turn_destroy(arbiter);
}

// Checks that the arbiter charges at least half of a short turn. Otherwise a tenant of short requests would cost the
// others more than it is charged.
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
	// This launch comes before the end of the grace period, so the turn does not end within the request.
	add_launch(a, now + MS + 90 * US, MS);
	turn_decide(arbiter, facts, now + MS + rules.grace_ns, &orders);
	CHECK_INT(orders.holder, a);
	set_idle(a, now + 2 * MS);
	turn_decide(arbiter, facts, now + 2 * MS + rules.grace_ns, &orders);
	CHECK_INT(orders.holder, b);
	turn_destroy(arbiter);
}

// Lets vGPU 0, which has the turn, launch at `now`. Returns how long after that the arbiter looks at its work.
static uint64_t find_holder_look(uint64_t now)
{
	add_launch(0, now, MS);
	turn_decide(arbiter, facts, now, &orders);
	CHECK_INT(orders.holder, 0);
	return orders.next_ns - now;
}

// Tests a vGPU whose work the arbiter sees end by its estimate, because the process does not report the end.
TEST(holder_that_reports_is_checked_less_often)
{
	uint64_t now = SEC;

	turn_rules(TURN_MODE_TIME, &rules);
	rules.trust_ns = 5 * MS;
	CHECK_INT(turn_create(&rules, now, 0, &arbiter), 0);
	memset(facts, 0, sizeof facts);
	add_vgpu(90, false, false);
	add_vgpu(10, false, false);
	set_waiting(0, now);
	set_waiting(1, now);
	turn_decide(arbiter, facts, now, &orders);
	// A new vGPU is not trusted.
	CHECK_INT(find_holder_look(now + MS), rules.look_ns + rules.margin_ns);
	now += rules.trust_ns;
	CHECK_INT(find_holder_look(now), rules.look_trusted_ns + rules.margin_ns);
	// The program launches again within its grace, so nothing is lost.
	set_idle(0, now += MS);
	facts[0].is_overdue = true;
	turn_decide(arbiter, facts, now, &orders);
	CHECK_INT(find_holder_look(now += 50 * US), rules.look_trusted_ns + rules.margin_ns);
	// The program loses its turn: first it reports the end of its work, then it does not.
	for (int i = 0; i < 2; i++) {
		set_idle(0, now += MS);
		facts[0].is_overdue = i;
		turn_decide(arbiter, facts, now += rules.grace_most_ns, &orders);
		CHECK_INT(orders.holder, 1);
		add_launch(1, now, MS);
		turn_decide(arbiter, facts, now, &orders);
		set_idle(1, now += MS);
		set_waiting(0, now += MS);
		turn_decide(arbiter, facts, now, &orders);
		set_waiting(1, now);
		uint64_t look = find_holder_look(now);
		CHECK(i ? look == rules.look_ns + rules.margin_ns : look > rules.look_ns + rules.margin_ns);
	}
	turn_destroy(arbiter);
}

// A hostile process clears its slot when its work has ended, and does not ring. The time until the arbiter looks is
// charged. If the slot has a time that could be the end of the work, but is too old, the arbiter looks sooner next
// time.
TEST(holder_that_hides_the_end_of_its_work_is_charged_and_loses_trust)
{
	for (int i = 0; i < 3; i++) {
		struct turn_account before, after;
		uint64_t now = SEC;
		turn_rules(TURN_MODE_TIME, &rules);
		rules.trust_ns = 5 * MS;
		CHECK_INT(turn_create(&rules, now, 0, &arbiter), 0);
		memset(facts, 0, sizeof facts);
		add_vgpu(90, false, false);
		add_vgpu(10, false, false);
		set_waiting(0, now);
		set_waiting(1, now);
		turn_decide(arbiter, facts, now, &orders);
		find_holder_look(now + MS);
		CHECK_INT(find_holder_look(now += rules.trust_ns), rules.look_trusted_ns + rules.margin_ns);
		turn_read(arbiter, 0, &before);
		uint64_t ended = i == 0 ? 0 : now + (i == 1 ? MS : 8 * MS);
		set_idle(0, ended);
		turn_decide(arbiter, facts, now += 8 * MS + rules.grace_most_ns, &orders);
		CHECK_INT(orders.holder, 1);
		turn_read(arbiter, 0, &after);
		if (i == 0)
			CHECK(after.charged_ns - before.charged_ns >= 8 * MS);
		add_launch(1, now, MS);
		turn_decide(arbiter, facts, now, &orders);
		set_idle(1, now += MS);
		set_waiting(0, now += MS);
		turn_decide(arbiter, facts, now, &orders);
		set_waiting(1, now);
		uint64_t look = find_holder_look(now);
		CHECK(i < 2 ? look == rules.look_ns + rules.margin_ns : look > rules.look_ns + rules.margin_ns);
		turn_destroy(arbiter);
	}
}

TEST(holder_may_run_ahead_while_all_others_wait)
{
	unsigned int third, latency;

	begin_pair((struct turn_terms){30}, (struct turn_terms){30}, SEC);
	CHECK(orders.gates[0].until_ns != UINT64_MAX);
	CHECK_INT(orders.gates[0].ahead_ns, orders.gates[0].until_ns + 4 * MS);
	CHECK_INT(orders.gates[1].ahead_ns, 0);
	CHECK_INT(turn_join(arbiter, &(struct turn_terms){20}, SEC, &third), 0);
	set_waiting(third, SEC + 20 * US);
	turn_decide(arbiter, facts, SEC + 20 * US, &orders);
	CHECK_INT(orders.gates[0].ahead_ns, orders.gates[0].until_ns + 4 * MS);
	// The vGPU now has two processes with work. Neither knows the work of the other, so neither may launch ahead.
	facts[0].in_flight = 2;
	turn_decide(arbiter, facts, SEC + 25 * US, &orders);
	CHECK_INT(orders.gates[0].ahead_ns, 0);
	facts[0].in_flight = 1;
	// The third vGPU is idle. It may want a turn before the turn of the first one ends. So the first one may not
	// launch work that would run beyond the end of its turn.
	facts[third].waiting = 0;
	turn_decide(arbiter, facts, SEC + 30 * US, &orders);
	CHECK_INT(orders.gates[0].ahead_ns, 0);
	set_waiting(third, SEC + 40 * US);
	turn_decide(arbiter, facts, SEC + 40 * US, &orders);
	CHECK_INT(orders.gates[0].ahead_ns, orders.gates[0].until_ns + 4 * MS);
	CHECK_INT(turn_join(arbiter, &(struct turn_terms){.share = 20, .is_latency = true}, SEC, &latency), 0);
	add_launch(latency, SEC + 50 * US, MS);
	facts[latency].is_urgent = true;
	turn_decide(arbiter, facts, SEC + 50 * US, &orders);
	CHECK_INT(orders.gates[0].ahead_ns, 0);
	turn_destroy(arbiter);
}

TEST(vgpu_with_idle_time_only_loses_its_turn_at_once)
{
	begin_pair((struct turn_terms){0}, (struct turn_terms){100}, SEC);
	CHECK_INT(orders.gates[0].window_us, rules.idle_window_ns / 1000);
	CHECK_INT(get_state(0), TURN_CLOSED); // the vGPU drains
	CHECK_INT(orders.gates[0].reason, TURN_REASON_UNSHARED);
	set_idle(0, SEC + MS);
	turn_decide(arbiter, facts, SEC + MS, &orders);
	CHECK_INT(orders.holder, 1);
	add_launch(1, SEC + MS, MS);
	set_waiting(0, SEC + MS);
	turn_decide(arbiter, facts, SEC + 2 * MS, &orders);
	set_idle(1, SEC + 3 * MS);
	// vGPU 1 has been idle for 1 ms only. It keeps the device until it has been idle for rules.idle_ns.
	turn_decide(arbiter, facts, SEC + 4 * MS, &orders);
	CHECK_INT(orders.holder, 1);
	CHECK_INT(orders.next_ns, SEC + 3 * MS + rules.idle_ns);
	turn_decide(arbiter, facts, SEC + 3 * MS + rules.idle_ns, &orders);
	CHECK_INT(orders.holder, 0);
	turn_destroy(arbiter);
}

// Checks that an idle vGPU's gate is closed while another one is active. If the gate were open, new launches would not
// ring the arbiter's bell, so the arbiter would not notice them.
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
	// No other vGPU is active, so the next launch of this idle vGPU need not wait.
	CHECK(get_state(batch) == TURN_OPEN);
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
	// After the end of the turn, the arbiter waits for the work until its estimated end, and then half as long
	// again.
	uint64_t longest = facts[0].eta_ns + (facts[0].eta_ns - until) / 2;
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

TEST(beat_continues_while_a_thread_waits)
{
	begin_pair((struct turn_terms){50}, (struct turn_terms){50}, SEC);
	// The first vGPU gets a second turn, but launches nothing. Then the second vGPU goes idle.
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

// Changes the share of a vGPU that has had more time than the other one. The vGPU must stay ahead by the same time.
// With five times the share, that time is a fifth in virtual time.
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
