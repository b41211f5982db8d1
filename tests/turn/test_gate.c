// Tests the words that daemon and processes share, and the gate where a process waits for its turn.
#include "test.h"

#include <pthread.h>

#include "turn/gate.h"
#include "turn/turn.h"

#define US 1000ull
#define MS 1000000ull
#define SEC 1000000000ull

// ---- the words

TEST(word_of_open_gate_is_zero)
{
	CHECK_INT(turn_word(0, TURN_OPEN, 0), 0);
	CHECK_INT(turn_word_state(0), TURN_OPEN);
	CHECK(turn_admits(0, 0, 0, SEC, 5 * SEC));
}

TEST(word_has_number_state_and_flags)
{
	uint32_t word = turn_word(TURN_NUMBERS + 5, TURN_CLOSED, TURN_SPIN | TURN_WANTED);

	CHECK_INT(turn_word_number(word), 5);
	CHECK_INT(turn_word_state(word), TURN_CLOSED);
	CHECK(turn_word_is(word, TURN_SPIN) && turn_word_is(word, TURN_WANTED));
	CHECK(!turn_word_is(word, TURN_COUNT) && !turn_word_is(word, TURN_ANNOUNCE));
}

TEST(allowed_work_shrinks_to_the_window_at_the_end_of_the_turn)
{
	uint64_t end = 10 * SEC;

	CHECK_INT(turn_window(400, 0, end), 400 * US);
	CHECK_INT(turn_window(400, end, end - 20 * MS), 10 * MS);
	CHECK_INT(turn_window(400, end, end - 2 * MS), 1 * MS);
	CHECK_INT(turn_window(400, end, end - 800 * US), 400 * US);
	CHECK_INT(turn_window(400, end, end - 100 * US), 400 * US);
	CHECK_INT(turn_window(400, end, end + SEC), 400 * US);
}

TEST(held_gate_admits_a_window_until_the_end_of_the_turn)
{
	uint32_t held = turn_word(1, TURN_HELD, 0), wanted = turn_word(1, TURN_HELD, TURN_WANTED);
	uint64_t now = 10 * SEC, until = now + 5 * MS;

	CHECK(turn_admits(held, 400 * US, 0, now, 0));
	CHECK(turn_admits(held, 400 * US, 0, now, now + 399 * US));
	CHECK(!turn_admits(held, 400 * US, 0, now, now + 400 * US));
	// The estimated end of the work in flight has passed, so nothing counts as in flight, and the launch is
	// admitted.
	CHECK(turn_admits(held, 400 * US, 0, now, now - 1));
	// Work that starts before the end of the turn belongs to it.
	CHECK(turn_admits(wanted, 400 * US, until, until - 1, 0));
	CHECK(!turn_admits(wanted, 400 * US, until, until, 0));
	CHECK(turn_admits(wanted, 400 * US, until, until - 100 * US, until - 1));
	CHECK(!turn_admits(wanted, 400 * US, until, until - 100 * US, until));
	CHECK(turn_admits(held, 400 * US, until, until + 1, 0)); // the turn has ended, but no other vGPU waits
	CHECK(!turn_admits(turn_word(1, TURN_CLOSED, TURN_SPIN), 400 * US, until, now, 0));
}

TEST(unknown_states_are_open)
{
	for (unsigned int state = TURN_CLOSED + 1; state < 16; state++)
		CHECK(turn_admits(7 << 8 | state << 4 | 15, 0, 0, SEC, 9 * SEC));
}

static struct turn_page page;
static struct turn_slot slots[128];

static struct turn_facts read_slots(unsigned int count, const uint64_t *stopped, uint64_t now)
{
	struct turn_facts facts;

	turn_page_read(&page, slots, count, stopped, 100 * US, now, &facts);
	return facts;
}

static void clear_page(void)
{
	memset(&page, 0, sizeof page);
	memset(slots, 0, sizeof slots);
}

TEST(facts_combine_the_slots_of_all_processes)
{
	uint64_t now = 10 * SEC;
	struct turn_facts facts;

	clear_page();
	page.word = turn_word(9, TURN_HELD, 0);
	slots[0] = (struct turn_slot){.watching = 1, .turn = 9, .eta_ns = now + 5, .began_ns = now - 50, .launches = 3};
	slots[1] = (struct turn_slot){.watching = 1, .turn = 9, .eta_ns = now + 9, .began_ns = now - 70, .launches = 4};
	slots[2] = (struct turn_slot){.turn = 8, .began_ns = now - 900, .idle_ns = now - 10, .gpu_ns = 77};
	slots[70] = (struct turn_slot){.waiting = 2, .urgent = 1, .alive_ns = now - 3};
	facts = read_slots(71, NULL, now);
	CHECK_INT(facts.in_flight, 2);
	CHECK(facts.eta_ns == now + 9 && facts.began_ns == now - 70 && facts.idle_ns == now - 10);
	CHECK(facts.launches == 7 && facts.gpu_ns == 77 && facts.alive_ns == now - 3);
	CHECK(facts.waiting == 1 && facts.is_urgent && !facts.is_stopped);
}

TEST(unwatched_work_ends_at_its_estimate)
{
	uint64_t now = 10 * SEC, stopped[2] = {0, 1ull << 6};
	struct turn_facts facts;

	clear_page();
	slots[70] = (struct turn_slot){.watching = 1, .eta_ns = now - 1 * MS, .waiting = 1};
	CHECK_INT(read_slots(71, NULL, now).in_flight, 1);
	// A stopped process has no thread that waits at the gate or watches the device.
	facts = read_slots(71, stopped, now);
	CHECK(!facts.in_flight && !facts.waiting && facts.is_stopped && facts.idle_ns == now - 1 * MS);
	CHECK(facts.is_overdue);
	slots[70].watching = 0;
	slots[70].eta_ns = now - 99 * US;
	facts = read_slots(71, NULL, now);
	CHECK(facts.in_flight == 1 && !facts.is_overdue);
	slots[70].eta_ns = now - 100 * US;
	facts = read_slots(71, NULL, now);
	CHECK(!facts.in_flight && facts.is_overdue);
}

TEST(times_in_the_future_are_bounded)
{
	uint64_t now = 10 * SEC;
	struct turn_facts facts;

	clear_page();
	slots[0] = (struct turn_slot){.waiting = UINT32_MAX,
				      .eta_ns = UINT64_MAX,
				      .began_ns = UINT64_MAX,
				      .idle_ns = UINT64_MAX,
				      .alive_ns = UINT64_MAX,
				      .launches = UINT64_MAX};
	facts = read_slots(1, NULL, now);
	CHECK(facts.began_ns == now && facts.idle_ns == now && facts.alive_ns == now);
	CHECK(facts.waiting == 1 && facts.in_flight == 1);
}

TEST(write_returns_when_to_wake_and_to_look_again)
{
	struct turn_gate gate = {.word = turn_word(1, TURN_CLOSED, 0), .window_us = 5, .reason = TURN_REASON_LIMITED};

	clear_page();
	CHECK_INT(turn_page_write(&page, &gate, 123), TURN_WRITTEN_LOOK);
	CHECK(page.word == gate.word && page.window_us == 5 && page.beat_ns == 123 &&
	      page.reason == TURN_REASON_LIMITED);
	gate.word = turn_word(1, TURN_CLOSED, TURN_SPIN);
	CHECK_INT(turn_page_write(&page, &gate, 124), TURN_WRITTEN_WAKE);
	// no process need be woken, since only the time of the heartbeat has changed
	CHECK_INT(turn_page_write(&page, &gate, 125), 0);
	CHECK(page.beat_ns == 125);
	gate.word = turn_word(2, TURN_HELD, 0);
	CHECK_INT(turn_page_write(&page, &gate, 126), TURN_WRITTEN_WAKE);
	gate.word = turn_word(2, TURN_HELD, TURN_WANTED);
	CHECK_INT(turn_page_write(&page, &gate, 126), TURN_WRITTEN_WAKE | TURN_WRITTEN_LOOK);
	// During a pause a process does not ring. It may have launched, come to the gate or become idle after the slots
	// were read and before the word changed.
	gate.word = turn_word(2, TURN_CLOSED, TURN_SPIN | TURN_PAUSED);
	CHECK_INT(turn_page_write(&page, &gate, 126), TURN_WRITTEN_WAKE | TURN_WRITTEN_LOOK);
	gate.word = turn_word(3, TURN_CLOSED, TURN_SPIN | TURN_PAUSED);
	CHECK_INT(turn_page_write(&page, &gate, 126), TURN_WRITTEN_WAKE);
	gate.word = turn_word(3, TURN_CLOSED, 0);
	CHECK_INT(turn_page_write(&page, &gate, 126), TURN_WRITTEN_LOOK);
	gate.word = turn_word(3, TURN_CLOSED, TURN_SPIN | TURN_PAUSED);
	turn_page_write(&page, &gate, 126);
	gate.word = turn_word(3, TURN_HELD, 0);
	CHECK_INT(turn_page_write(&page, &gate, 126), TURN_WRITTEN_WAKE | TURN_WRITTEN_LOOK);
	page.word = 0xffffffff; // a tenant has overwritten the word
	CHECK(turn_page_write(&page, &gate, 127) & TURN_WRITTEN_WAKE);
	CHECK(page.word == gate.word);
}

// ---- the gate in a process

static struct turn_process process;
static struct turn_wait waiting;

static void set_word(enum turn_state state, unsigned int flags)
{
	struct turn_gate gate = {
		.word = turn_word(3, state, flags), .window_us = 400, .patience_us = 20000, .until_ns = UINT64_MAX};

	turn_page_write(&page, &gate, page.beat_ns + 1);
}

static void begin_process(enum turn_state state, unsigned int flags)
{
	clear_page();
	process = (struct turn_process){.page = &page, .slot = &slots[0]};
	set_word(state, flags);
}

TEST(launch_is_counted_in_the_slot)
{
	begin_process(TURN_HELD, 0);
	CHECK(!turn_count_launches(&process, 1, 300, SEC));
	CHECK(!turn_count_launches(&process, 1, 500, SEC + 100));
	CHECK(slots[0].launches == 2 && slots[0].gpu_ns == 800 && slots[0].eta_ns == SEC + 800);
	CHECK(slots[0].turn == 3 && slots[0].began_ns == SEC && !slots[0].urgent);
	// The first two kernels have ended by estimate, so the estimated end is this launch's time plus 7 ns.
	CHECK(!turn_count_launches(&process, 1, 7, SEC + MS));
	CHECK(slots[0].eta_ns == SEC + MS + 7);
}

TEST(several_launches_are_counted_at_once)
{
	begin_process(TURN_OPEN, TURN_COUNT);
	CHECK(!turn_count_launches(&process, 64, 6400, SEC));
	CHECK(!turn_count_launches(&process, 3, 30, SEC));
	CHECK(slots[0].launches == 67 && slots[0].gpu_ns == 6430 && slots[0].eta_ns == SEC + 6430);
}

TEST(copies_are_counted_by_direction_for_a_trace)
{
	begin_process(TURN_OPEN, TURN_COUNT);
	CHECK(!turn_counts_copies(&process));
	page.traced = 1;
	CHECK(turn_counts_copies(&process));
	turn_count_copy(&process, TURN_COPY_OUT, 100);
	turn_count_copy(&process, TURN_COPY_OUT, 20);
	turn_count_copy(&process, TURN_COPY_IN, 3);
	CHECK(page.copies[TURN_COPY_OUT].count == 2 && page.copies[TURN_COPY_OUT].bytes == 120);
	CHECK(page.copies[TURN_COPY_IN].count == 1 && page.copies[TURN_COPY_IN].bytes == 3);
	CHECK(page.copies[TURN_COPY_WITHIN].count == 0);
}

TEST(end_of_work_rings_if_another_vgpu_waits)
{
	begin_process(TURN_HELD, 0);
	turn_count_launches(&process, 1, 300, SEC);
	CHECK(!turn_report_flight(&process, 900, SEC + 100));
	CHECK_INT(slots[0].eta_ns, SEC + 1000);
	// the arbiter's bell need not ring, since no other vGPU waits for the end of this work
	CHECK(!turn_report_flight(&process, 0, SEC + 500));
	CHECK(slots[0].eta_ns == 0 && slots[0].idle_ns == SEC + 500);
	turn_count_launches(&process, 1, 300, SEC + 600);
	set_word(TURN_HELD, TURN_WANTED);
	CHECK(turn_report_flight(&process, 0, SEC + 700));
	// the process was idle already, so the arbiter's bell need not ring
	CHECK(!turn_report_flight(&process, 0, SEC + 800));
	CHECK_INT(slots[0].idle_ns, SEC + 700);
	set_word(TURN_HELD, TURN_ANNOUNCE);
	// a request begins, so the gate must announce it to the arbiter
	CHECK(turn_count_launches(&process, 1, 300, SEC + MS));
	CHECK(slots[0].urgent && !turn_count_launches(&process, 1, 300, SEC + MS));
	slots[0].waiting = 1; // another thread waits to launch more work of the request
	CHECK(!turn_report_flight(&process, 0, SEC + 2 * MS) && slots[0].urgent && !slots[0].eta_ns);
	CHECK(!turn_count_launches(&process, 1, 300, SEC + 2 * MS));
	CHECK(!turn_report_flight(&process, 0, SEC + 2 * MS + 1000));
	// The arbiter has ended the request meanwhile.
	CHECK(turn_count_launches(&process, 1, 300, SEC + 3 * MS - 1000));
	slots[0].waiting = 0;
	CHECK(turn_report_flight(&process, 0, SEC + 3 * MS) && !slots[0].urgent);
}

// During a pause the vGPU keeps its turn. The arbiter has to know whether the process works or waits at the gate, but
// not which of the two.
TEST(pause_rings_only_if_the_process_stops_or_begins_to_contend)
{
	begin_process(TURN_HELD, TURN_WANTED);
	turn_count_launches(&process, 1, MS, SEC);
	set_word(TURN_CLOSED, TURN_SPIN | TURN_PAUSED);
	turn_wait_begin(&process, &waiting, SEC);
	CHECK(!turn_wait_look(&process, &waiting, SEC).ring);
	CHECK(!turn_report_flight(&process, 0, SEC + MS) && slots[0].idle_ns == SEC + MS);
	CHECK(!turn_wait_look(&process, &waiting, SEC + MS).ring);
	set_word(TURN_HELD, 0);
	CHECK_INT(turn_wait_look(&process, &waiting, SEC + MS).step, TURN_STEP_LAUNCH);
	turn_wait_end(&process);
	turn_count_launches(&process, 1, MS, SEC + MS);
	// Without a thread at the gate, a process whose work ends no longer contends.
	set_word(TURN_CLOSED, TURN_SPIN | TURN_PAUSED);
	CHECK(turn_report_flight(&process, 0, SEC + 2 * MS));
	// A thread that comes to the gate without work in flight begins to contend.
	turn_wait_begin(&process, &waiting, SEC + 3 * MS);
	CHECK(turn_wait_look(&process, &waiting, SEC + 3 * MS).ring);
	turn_wait_end(&process);
	// At the end of a turn, the next vGPU waits for the end of the work.
	set_word(TURN_HELD, TURN_WANTED);
	turn_count_launches(&process, 1, MS, SEC + 4 * MS);
	set_word(TURN_CLOSED, 0);
	turn_wait_begin(&process, &waiting, SEC + 4 * MS);
	CHECK(turn_wait_look(&process, &waiting, SEC + 4 * MS).ring);
	CHECK(turn_report_flight(&process, 0, SEC + 5 * MS));
	turn_wait_end(&process);
}

TEST(end_of_work_does_not_ring_if_a_thread_launches_now)
{
	begin_process(TURN_HELD, TURN_WANTED);
	page.until_ns = SEC + 10 * MS;
	turn_count_launches(&process, 1, MS, SEC);
	turn_wait_begin(&process, &waiting, SEC);
	CHECK(!turn_report_flight_at_gate(&process, 0, SEC + MS));
	CHECK_INT(turn_wait_look(&process, &waiting, SEC + MS).step, TURN_STEP_LAUNCH);
	turn_count_launches(&process, 1, 9 * MS, SEC + MS);
	// The turn has ended, so the thread waits for the next one.
	CHECK(turn_report_flight_at_gate(&process, 0, SEC + 10 * MS));
	CHECK(turn_wait_look(&process, &waiting, SEC + 10 * MS).step != TURN_STEP_LAUNCH);
	// The thread sleeps until the estimated end. The synchronization of another thread proves an earlier end.
	turn_count_launches(&process, 1, 8 * MS, SEC + 2 * MS);
	CHECK(turn_report_flight(&process, 0, SEC + 3 * MS));
	turn_wait_end(&process);
	turn_count_launches(&process, 1, MS, SEC + 4 * MS);
	CHECK(turn_report_flight_at_gate(&process, 0, SEC + 5 * MS)); // no thread is at the gate any more
}

TEST(request_is_announced_after_an_end_that_was_not_reported)
{
	begin_process(TURN_HELD, TURN_ANNOUNCE);
	CHECK(turn_count_launches(&process, 1, US, SEC));
	// This launch comes so soon that it continues the first one's request, which was announced already.
	CHECK(!turn_count_launches(&process, 1, US, SEC + 150 * US));
	CHECK(turn_count_launches(&process, 1, US, SEC + 400 * US));
	CHECK(slots[0].urgent);
}

TEST(thread_at_a_closed_gate_rings_spins_and_sleeps)
{
	struct turn_action action;

	begin_process(TURN_CLOSED, 0);
	CHECK(!turn_gate_admits(&process, SEC));
	turn_wait_begin(&process, &waiting, SEC);
	CHECK(slots[0].waiting == 1 && slots[0].watching == 1 && slots[0].alive_ns == SEC);
	action = turn_wait_look(&process, &waiting, SEC);
	CHECK(action.step == TURN_STEP_SPIN && action.ring);
	action = turn_wait_look(&process, &waiting, SEC + 20 * US);
	CHECK(action.step == TURN_STEP_SLEEP && !action.ring && action.word == page.word);
	set_word(TURN_CLOSED, TURN_SPIN);
	action = turn_wait_look(&process, &waiting, SEC + 10 * MS);
	CHECK(action.step == TURN_STEP_SPIN && slots[0].alive_ns == SEC + 10 * MS);
	set_word(TURN_HELD, 0);
	CHECK_INT(turn_wait_look(&process, &waiting, SEC + 11 * MS).step, TURN_STEP_LAUNCH);
	turn_wait_end(&process);
	CHECK(!slots[0].waiting && !slots[0].watching);
}

// Tests how often a thread at a closed gate polls: more often as the estimated end comes closer, and less often the
// longer the work lasts beyond that time.
TEST(thread_at_a_closed_gate_polls_for_the_end_of_work)
{
	struct turn_action action;

	begin_process(TURN_HELD, 0);
	turn_count_launches(&process, 1, MS, SEC);
	set_word(TURN_CLOSED, 0);
	turn_wait_begin(&process, &waiting, SEC);
	action = turn_wait_look(&process, &waiting, SEC);
	CHECK(action.step == TURN_STEP_POLL && action.ns == 500 * US);
	action = turn_wait_look(&process, &waiting, SEC + MS);
	CHECK(action.step == TURN_STEP_POLL && action.ns == 10 * US);
	action = turn_wait_look(&process, &waiting, SEC + 9 * SEC);
	CHECK(action.step == TURN_STEP_POLL && action.ns == MS);
}

TEST(launch_waits_for_the_window_at_most_for_the_patience)
{
	struct turn_action action;

	begin_process(TURN_HELD, 0);
	turn_count_launches(&process, 1, SEC, SEC);
	turn_wait_begin(&process, &waiting, SEC);
	action = turn_wait_look(&process, &waiting, SEC);
	CHECK(action.step == TURN_STEP_POLL && action.ns == 10 * US && !action.ring);
	CHECK_INT(turn_wait_look(&process, &waiting, SEC + 20 * MS - 1).step, TURN_STEP_POLL);
	CHECK_INT(turn_wait_look(&process, &waiting, SEC + 20 * MS).step, TURN_STEP_LAUNCH);
}

// Simulates a thread that waits at the gate from `now` on. Returns the time at which the gate opens, or at which the
// thread wakes the arbiter (rings its bell) for the `rings`-th time.
static uint64_t sleep_at_gate(uint64_t now, int rings)
{
	struct turn_action action;

	while ((action = turn_wait_look(&process, &waiting, now)).step != TURN_STEP_LAUNCH && (rings -= action.ring))
		now += action.ns;
	return now;
}

TEST(gate_without_a_beat_opens)
{
	uint64_t now = SEC;

	begin_process(TURN_CLOSED, 0);
	turn_wait_begin(&process, &waiting, now);
	now = sleep_at_gate(now, 100);
	CHECK(now >= SEC + TURN_BEAT_NS && now <= SEC + TURN_BEAT_NS + MS);
	turn_wait_end(&process);
	CHECK(turn_gate_admits(&process, now + SEC - 1) && !turn_gate_admits(&process, now + SEC));
	// A thread that was stopped cannot conclude from an old heartbeat that no arbiter runs. It rings the bell, and
	// the arbiter answers with a heartbeat.
	now += 2 * SEC;
	turn_wait_begin(&process, &waiting, now);
	CHECK_INT(sleep_at_gate(now, 1), now);
	now = sleep_at_gate(now + 9 * SEC, 1);
	CHECK(!turn_gate_admits(&process, now));
	page.beat_ns++;
	uint64_t beat = now;
	now = sleep_at_gate(now, 100);
	CHECK(now >= beat + TURN_BEAT_NS && now <= beat + TURN_BEAT_NS + TURN_BEAT_NS / 3);
}

enum { THREADS = 4, LAUNCHES = 20000 };

static void *launch_often(void *user)
{
	struct turn_wait wait;

	for (int i = 0; i < LAUNCHES; i++) {
		turn_count_launches(user, 1, 3, SEC);
		turn_wait_begin(user, &wait, SEC);
		turn_wait_look(user, &wait, SEC);
		turn_wait_end(user);
	}
	return NULL;
}

TEST(work_in_flight_of_several_threads_adds_up)
{
	pthread_t threads[THREADS];

	begin_process(TURN_HELD, TURN_ANNOUNCE);
	for (int i = 0; i < THREADS; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, launch_often, &process), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK(slots[0].launches >= LAUNCHES && slots[0].launches <= THREADS * LAUNCHES);
	CHECK_INT(slots[0].eta_ns - SEC, 3 * THREADS * LAUNCHES);
	CHECK(slots[0].urgent == 1 && !slots[0].waiting && !slots[0].watching);
}

// Waits at a closed gate for a turn, and returns how long.
static uint64_t wait_at_gate(struct turn_process *process, uint64_t now)
{
	struct turn_action action;
	struct turn_wait wait;
	uint64_t begun = now;

	turn_wait_begin(process, &wait, now);
	while ((action = turn_wait_look(process, &wait, now)).step != TURN_STEP_LAUNCH)
		now += action.ns;
	turn_wait_end(process);
	return now - begun;
}

TEST(no_thread_waits_twice_for_a_stopped_arbiter)
{
	static struct turn_page page;
	struct turn_slot slot = {0};
	struct turn_process process = {.page = &page, .slot = &slot};

	page.word = turn_word(1, TURN_CLOSED, 0);
	page.beat_ns = SEC;
	uint64_t first = wait_at_gate(&process, SEC);
	CHECK(first >= TURN_BEAT_NS && first < 2 * TURN_BEAT_NS);
	CHECK_INT(wait_at_gate(&process, 2 * SEC), 0); // launches still need no turn
	CHECK_INT(wait_at_gate(&process, 10 * SEC), 0);
	page.beat_ns = 11 * SEC; // another arbiter has started
	CHECK(wait_at_gate(&process, 12 * SEC) >= TURN_BEAT_NS);
}
