// Tests the arbiter step by step: limits and the latency class.
#include "arbiter.h"

// Begins a request of a latency vGPU, which closes the batch vGPU's gate while it lasts. The batch vGPU's turn must be
// as long as without the request.
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
	CHECK(turn_word_is(orders.gates[a].word, TURN_PAUSED) && !turn_word_is(orders.gates[1].word, TURN_PAUSED));
	facts[a] = (struct turn_facts){.waiting = 1,
				       .idle_ns = now + 3 * MS,
				       .alive_ns = now + 3 * MS,
				       .began_ns = now + 20 * US,
				       .launches = facts[a].launches};
	turn_decide(arbiter, facts, now + 3 * MS, &orders);
	set_idle(l, now + 4 * MS);
	facts[l].is_urgent = false;
	turn_decide(arbiter, facts, now + 4 * MS, &orders);
	CHECK(get_state(a) == TURN_HELD && orders.holder == (int)a);
	// The batch vGPU's turn was paused for 2 ms, less the delay until the pause began. The turn also becomes longer
	// by the time of the switch back to its context.
	CHECK_INT(orders.gates[a].until_ns, until + 2 * MS - rules.urgent_delay_ns + rules.switch_ns);
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
	// The limit also applies to a vGPU that runs alone.
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

// The arbiter wakes up 3 ms late each time, and so does the program. The vGPU still gets all of its limit.
TEST(limit_is_reached_although_the_arbiter_is_late)
{
	struct turn_account account;
	uint64_t now = SEC, begin;

	create_arbiter(TURN_MODE_TIME);
	add_vgpu(25, true, false);
	set_waiting(0, now);
	turn_decide(arbiter, facts, now, &orders);
	for (begin = now; now < 5 * SEC;) {
		if (get_state(0) == TURN_HELD) {
			uint64_t until = orders.gates[0].until_ns;
			add_launch(0, now + 200 * US, until - now);
			turn_decide(arbiter, facts, until, &orders);
			set_idle(0, until + 100 * US);
			now = until + 100 * US;
			set_waiting(0, now);
		} else {
			now = orders.next_ns + 3 * MS;
		}
		turn_decide(arbiter, facts, now, &orders);
	}
	turn_read(arbiter, 0, &account);
	double part = (double)account.charged_ns / (double)(now - begin);
	CHECK(part > .248 && part < .253);
	turn_destroy(arbiter);
}

// Tests a kernel of 10 s, which exceeds the limit by far, and which nothing interrupts. The next launch must wait for
// at most a second.
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

// A request of 10 s exceeds the latency vGPU's budget by far. The vGPU must repay at most twice the size of the budget.
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

// Changes the terms of a vGPU. What it was charged before must not count against its new limit or budget.
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

// Tests a process that waits for its work in a way that the interposer does not see. So the arbiter is not told when
// the request ends.
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
		// Treat the work as ended a margin after its estimated end, as turn_page_read() does.
		if (facts[latency].eta_ns && now >= facts[latency].eta_ns + rules.margin_ns)
			set_idle(latency, facts[latency].eta_ns);
		turn_decide(arbiter, facts, now, &orders);
	}
	CHECK_INT(get_state(batch), TURN_HELD);
	CHECK(now - began <= MS);
	turn_destroy(arbiter);
}

// Begins a request of the latency vGPU 1 at `now`. Returns how long after that the arbiter looks whether its work has
// ended.
static uint64_t find_request_look(uint64_t now)
{
	set_waiting(0, now);
	add_launch(1, now, 100 * US);
	facts[1].is_urgent = true;
	turn_decide(arbiter, facts, now, &orders);
	now += rules.urgent_delay_ns;
	turn_decide(arbiter, facts, now, &orders);
	CHECK_INT(get_state(0), TURN_CLOSED);
	return orders.next_ns - now;
}

TEST(request_of_a_vgpu_that_reports_is_checked_less_often)
{
	uint64_t now;

	create_arbiter(TURN_MODE_TIME);
	add_vgpu(60, false, false);
	add_vgpu(40, false, true);
	// A new vGPU is not trusted.
	CHECK_INT(find_request_look(SEC), rules.look_request_ns + rules.margin_ns);
	set_idle(1, SEC + MS);
	facts[1].is_urgent = false;
	turn_decide(arbiter, facts, SEC + MS, &orders);
	now = SEC + rules.trust_ns;
	CHECK_INT(find_request_look(now), rules.look_ns + rules.margin_ns);
	// This request ends only by its estimate.
	now += MS;
	set_idle(1, now - 500 * US);
	facts[1].is_overdue = true;
	turn_decide(arbiter, facts, now, &orders);
	CHECK_INT(get_state(0), TURN_HELD);
	CHECK_INT(find_request_look(now + MS), rules.look_request_ns + rules.margin_ns);
	turn_destroy(arbiter);
}

TEST(single_latency_vgpu_has_an_open_gate)
{
	unsigned int l, other;

	create_arbiter(TURN_MODE_TIME);
	l = add_vgpu(50, false, true);
	other = add_vgpu(50, false, false);
	turn_decide(arbiter, facts, SEC, &orders);
	// The latency vGPU has no work, so the process must announce its next launch.
	CHECK(get_state(l) == TURN_HELD && turn_word_is(orders.gates[l].word, TURN_ANNOUNCE));
	add_launch(l, SEC, MS);
	facts[l].is_urgent = true;
	turn_decide(arbiter, facts, SEC + 10 * US, &orders);
	CHECK(get_state(l) == TURN_OPEN && get_state(other) == TURN_CLOSED);
	set_waiting(other, SEC + 20 * US);
	turn_decide(arbiter, facts, SEC + 20 * US, &orders);
	CHECK(get_state(l) == TURN_HELD && get_state(other) == TURN_CLOSED);
	turn_destroy(arbiter);
}

// Changes the class of a batch vGPU that has the turn. As a latency vGPU it needs no turn.
TEST(latency_vgpu_within_its_budget_has_no_turn)
{
	begin_pair((struct turn_terms){50}, (struct turn_terms){50}, SEC);
	CHECK_INT(turn_set(arbiter, 0, &(struct turn_terms){50, .is_latency = true}, SEC + MS), 0);
	turn_decide(arbiter, facts, SEC + MS, &orders);
	CHECK(orders.holder == 1 && get_state(0) == TURN_HELD);
	CHECK(turn_word_is(orders.gates[0].word, TURN_ANNOUNCE));
	turn_destroy(arbiter);
}
