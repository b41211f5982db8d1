// Tests situations in which a vGPU might block the others. In each, every wait must be bounded, and so must the cost
// for the other vGPUs.
#include "test.h"

#include <math.h>

#include "model.h"

static const struct program train = {.launches = 20, .host_ns = 8 * US, .kernel_ns = 200 * US};
static const uint64_t FOREVER = 3600 * SEC;

static struct model *begin_model(struct model_options *options)
{
	model_options(TURN_MODE_TIME, options);
	return model_create(options);
}

static unsigned int start_vgpu(struct model *model, unsigned int share, const struct program *program)
{
	return model_start_process(model, model_add_vgpu(model, share, false, false), program);
}

static double measure_part(struct model *model, unsigned int process, uint64_t ns)
{
	return 100. * (double)model_process(model, process)->gpu_ns / (double)ns;
}

static uint64_t longest_wait(const struct model *model, unsigned int processes)
{
	uint64_t longest = 0;

	for (unsigned int i = 0; i < processes; i++)
		if (model_process(model, i)->longest_wait_ns > longest)
			longest = model_process(model, i)->longest_wait_ns;
	return longest;
}

// Makes each kernel of process 0 wait for a kernel of process 1, which is in the other vGPU.
TEST(kernels_that_wait_for_another_vgpu_continue)
{
	const struct program first = {.launches = 1, .host_ns = 8 * US, .kernel_ns = 50 * US, .spins_for = 2};
	const struct program second = {.launches = 1, .host_ns = 8 * US, .kernel_ns = 50 * US};
	struct model_options options;
	struct model *model = begin_model(&options);

	start_vgpu(model, 50, &first);
	start_vgpu(model, 50, &second);
	model_run(model, 5 * SEC);
	// A wait lasts at most for a turn of each vGPU (12 ms each), and for the time that the arbiter waits for the
	// end of work after a turn (20 ms).
	CHECK(model_process(model, 0)->kernels > 5 * 1000 / (2 * 12 + 20));
	CHECK(longest_wait(model, 2) <= 2 * (12 + 20) * MS);
	model_destroy(model);
}

TEST(two_collectives_across_vgpus_continue)
{
	struct program programs[4];
	struct model_options options;
	struct model *model = begin_model(&options);

	// Process 0 waits for process 3, and process 1 for process 2. In both pairs, the second process is in the other
	// vGPU and waits for none.
	for (unsigned int i = 0; i < 4; i++)
		programs[i] = (struct program){.launches = 1,
					       .host_ns = 8 * US,
					       .kernel_ns = 100 * US,
					       .spins_for = i == 0   ? 4
							    : i == 1 ? 3
								     : 0};
	unsigned int a = model_add_vgpu(model, 50, false, false), b = model_add_vgpu(model, 50, false, false);
	model_start_process(model, a, &programs[0]);
	model_start_process(model, b, &programs[1]);
	model_start_process(model, a, &programs[2]);
	model_start_process(model, b, &programs[3]);
	model_run(model, 5 * SEC);
	for (unsigned int i = 0; i < 4; i++)
		CHECK(model_process(model, i)->kernels > 100);
	CHECK(longest_wait(model, 4) <= 2 * (12 + 20) * MS);
	model_destroy(model);
}

TEST(persistent_kernel_blocks_no_turns_and_is_reported)
{
	const struct program persistent = {.launches = 1, .kernel_ns = FOREVER};
	struct model_options options;
	struct model *model = begin_model(&options);
	struct turn_account account[3];

	unsigned int p = start_vgpu(model, 20, &persistent);
	unsigned int a = start_vgpu(model, 40, &train), b = start_vgpu(model, 40, &train);
	model_run(model, SEC);
	model_reset_figures(model);
	model_run(model, 4 * SEC);
	for (unsigned int i = 0; i < 3; i++)
		model_account(model, i, &account[i]);
	CHECK_INT(account[p].turns, 1);
	CHECK(account[a].turns > 100);
	CHECK_INT(model_gate(model, p)->reason, TURN_REASON_RESIDENT);
	CHECK_INT(model_orders(model)->reason, TURN_REASON_RESIDENT);
	CHECK(model_now(model) - model_gate(model, p)->since_ns > 4 * SEC);
	// The driver gives the persistent kernel every second slice. The other vGPUs keep their shares of the rest.
	CHECK(measure_part(model, a, 4 * SEC) > 18 && measure_part(model, b, 4 * SEC) > 18);
	CHECK(fabs((double)account[a].charged_ns - (double)account[b].charged_ns) < .01 * 5e9);
	// The vGPU of the persistent kernel is charged for half of the time.
	CHECK(fabs((double)account[p].charged_ns / 5e9 - .5) < .03);
	model_destroy(model);
}

TEST(overlong_kernels_are_compensated_in_later_turns)
{
	const struct program program = {.launches = 4, .host_ns = 8 * US, .kernel_ns = 18 * MS};
	struct model_options options;
	struct model *model = begin_model(&options);

	start_vgpu(model, 30, &program);
	start_vgpu(model, 70, &train);
	model_run(model, SEC);
	model_reset_figures(model);
	model_run(model, 20 * SEC);
	CHECK(fabs(measure_part(model, 0, 20 * SEC) - 30) < .6);
	CHECK(fabs(measure_part(model, 1, 20 * SEC) - 70) < 1.2);
	model_destroy(model);
}

// Tests kernels of 100 ms in a vGPU with a share of 2 %. To keep this share, each launch would have to wait for 4.9 s.
// But the arbiter limits how far a vGPU can get ahead of the others (`debt_ns`).
TEST(wait_is_bounded_by_the_debt)
{
	const struct program program = {.launches = 1, .host_ns = 8 * US, .kernel_ns = 100 * MS};
	struct model_options options;
	struct model *model = begin_model(&options);

	start_vgpu(model, 2, &program);
	start_vgpu(model, 98, &train);
	model_run(model, 20 * SEC);
	CHECK(model_process(model, 0)->kernels >= 14);
	CHECK(longest_wait(model, 2) <= options.rules.debt_ns + 2 * (12 + 20) * MS);
	model_destroy(model);
}

// Tests a process that never synchronizes while it computes on the host, so that no thread reports the end of its work.
TEST(unwatched_work_ends_at_its_estimate)
{
	const struct program program = {
		.launches = 5, .host_ns = 8 * US, .kernel_ns = 200 * US, .think_ns = 20 * MS, .never_waits = true};
	struct model_options options;
	struct model *model = begin_model(&options);

	start_vgpu(model, 50, &program);
	start_vgpu(model, 50, &train);
	model_run(model, SEC);
	model_reset_figures(model);
	model_run(model, 4 * SEC);
	CHECK(measure_part(model, 1, 4 * SEC) > 85); // the first vGPU's program uses only 4 % of the device
	CHECK(model_process(model, 0)->kernels > 4 * 5 * 40);
	model_destroy(model);
}

static uint64_t gap_of(struct model *model, unsigned int process, uint64_t ns)
{
	uint64_t gap = 0, last = model_now(model), end = last + ns, kernels = model_process(model, process)->kernels;

	while (model_now(model) < end) {
		model_run(model, MS / 4);
		if (model_process(model, process)->kernels != kernels) {
			kernels = model_process(model, process)->kernels;
			last = model_now(model);
		}
		gap = model_now(model) - last > gap ? model_now(model) - last : gap;
	}
	return gap;
}

static void run_until_turn(struct model *model, unsigned int vgpu)
{
	while (model_orders(model)->holder < 0 ||
	       &model_orders(model)->gates[model_orders(model)->holder] != model_gate(model, vgpu))
		model_run(model, MS / 10);
}

static void check_total(struct model *model)
{
	struct turn_total total;

	model_total(model, &total);
	CHECK(total.charged_ns + total.overhead_ns + total.idle_ns == total.elapsed_ns + total.beside_ns);
}

TEST(killed_holder_loses_its_turn_at_once)
{
	for (int i = 0; i < 50; i++) {
		struct model_options options;
		struct model *model = begin_model(&options);
		unsigned int victim = start_vgpu(model, 80, &train), other = start_vgpu(model, 20, &train);
		model_run(model, (200 + (uint64_t)i * 7) * MS);
		run_until_turn(model, 0);
		model_kill(model, victim);
		uint64_t before = model_process(model, other)->kernels;
		model_run(model, 10 * MS);
		CHECK(model_process(model, other)->kernels > before);
		model_run(model, 200 * MS);
		check_total(model);
		model_reset_figures(model);
		model_run(model, SEC);
		CHECK(measure_part(model, other, SEC) > 97); // the other vGPU runs alone
		model_destroy(model);
	}
}

TEST(stopped_holders_delay_others_by_at_most_a_turn)
{
	for (int i = 0; i < 40; i++) {
		struct model_options options;
		struct model *model = begin_model(&options);
		model_destroy(model);
		options.sees_stops = i % 2;
		model = model_create(&options);
		unsigned int victim = start_vgpu(model, 50, &train), other = start_vgpu(model, 50, &train);
		model_run(model, (200 + (uint64_t)i * 3) * MS);
		run_until_turn(model, 0);
		model_run(model, (uint64_t)i * 100 * US);
		model_stop(model, victim);
		// If the process was stopped while it synchronized, no thread of it reports the end of its work.
		CHECK(gap_of(model, other, SEC) <= (12 + 12 + 20) * MS);
		if (options.sees_stops)
			CHECK_INT(model_gate(model, 0)->reason, TURN_REASON_STOPPED);
		model_continue(model, victim);
		model_run(model, 500 * MS);
		model_reset_figures(model);
		model_run(model, 2 * SEC);
		CHECK(fabs(measure_part(model, victim, 2 * SEC) - 49) < 1.5);
		check_total(model);
		model_destroy(model);
	}
}

static uint64_t random_state = 1;
static uint64_t draw(uint64_t below)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (random_state >> 33) % below;
}

// Kills the victim and starts another process in a new vGPU, or stops and continues the victim. Returns the process
// that is the victim from then on. Stores the longest time without a kernel of process 0.
static unsigned int disturb_holder(struct model *model, unsigned int victim, uint64_t *ret_gap)
{
	run_until_turn(model, victim);
	model_run(model, draw(12000) * US);
	if (draw(2)) {
		model_kill(model, victim);
		*ret_gap = gap_of(model, 0, (60 + draw(60)) * MS);
		return start_vgpu(model, 60, &train);
	}
	model_stop(model, victim);
	*ret_gap = gap_of(model, 0, (20 + draw(150)) * MS);
	model_continue(model, victim);
	return victim;
}

// Kills or stops processes that have the turn, and kills the arbiter at the same time.
TEST(killed_and_stopped_holders_block_no_other)
{
	enum { WORLDS = 20, HOLDERS = 50 };

	for (int world = 0; world < WORLDS; world++) {
		struct model_options options;
		struct model *model = begin_model(&options);
		model_destroy(model);
		options.sees_stops = world % 2;
		model = model_create(&options);
		start_vgpu(model, 40, &train);
		unsigned int victim = start_vgpu(model, 60, &train);
		uint64_t gap;
		model_run(model, 200 * MS);
		for (int i = 0; i < HOLDERS; i++) {
			victim = disturb_holder(model, victim, &gap);
			CHECK(gap <= (12 + 12 + 20) * MS);
			check_total(model);
			model_run(model, draw(100) * MS);
		}
		model_stop_arbiter(model);
		CHECK(gap_of(model, 0, SEC) <= 350 * MS);
		model_start_arbiter(model);
		model_run(model, SEC + 100 * MS); // gates that opened stay open for a second
		model_reset_figures(model);
		model_run(model, 2 * SEC);
		CHECK(fabs(measure_part(model, 0, 2 * SEC) - 39.6) < 1);
		check_total(model);
		model_destroy(model);
	}
}

// Stops a process that waits at the gate for its turn. Its vGPU must get one turn, which ends after 2 ms, and no
// further turn.
TEST(process_stopped_at_the_gate_gets_one_turn)
{
	struct model_options options;
	struct model *model = begin_model(&options);
	struct turn_account before, after;

	model_destroy(model);
	options.sees_stops = false;
	model = model_create(&options);
	unsigned int victim = start_vgpu(model, 50, &train), other = start_vgpu(model, 50, &train);
	model_run(model, 300 * MS);
	run_until_turn(model, 1);
	model_run(model, 2 * MS);
	CHECK(model_facts(model, 0)->waiting);
	model_stop(model, victim);
	model_account(model, 0, &before);
	model_reset_figures(model);
	model_run(model, 2 * SEC);
	model_account(model, 0, &after);
	CHECK(after.turns <= before.turns + 1);
	CHECK(measure_part(model, other, 2 * SEC) > 97.5);
	CHECK_INT(model_gate(model, 0)->reason, TURN_REASON_SILENT);
	model_continue(model, victim);
	model_run(model, 200 * MS);
	model_reset_figures(model);
	model_run(model, 2 * SEC);
	CHECK(fabs(measure_part(model, victim, 2 * SEC) - 49) < 1);
	model_destroy(model);
}

// Tests a process that wakes in its turn and launches nothing. It must be charged for the time that it wastes.
TEST(process_that_never_launches_wastes_its_own_share)
{
	const struct program silent = {.launches = 1, .kernel_ns = US, .silent = true};
	struct model_options options;
	struct model *model = begin_model(&options);
	struct turn_account account;

	start_vgpu(model, 30, &silent);
	unsigned int other = start_vgpu(model, 70, &train);
	model_run(model, 10 * SEC);
	CHECK(measure_part(model, other, 10 * SEC) >= 68.5);
	model_account(model, 0, &account);
	CHECK(account.turns > 20);
	model_destroy(model);
}

// Tests threads that wake slowly because all cores are busy. They must still get their turns, which are longer.
TEST(threads_that_wake_slowly_still_get_turns)
{
	static const struct {
		uint64_t wake;
		double sum;
	} hosts[] = {{200 * US, 98}, {1 * MS, 95.5}, {3 * MS, 88}, {8 * MS, 70}};

	for (int i = 0; i < 4; i++) {
		struct model_options options;
		struct turn_account first, second;
		struct model *model = begin_model(&options);
		model_destroy(model);
		options.wake_ns = hosts[i].wake;
		model = model_create(&options);
		start_vgpu(model, 30, &train);
		start_vgpu(model, 70, &train);
		model_run(model, SEC);
		model_reset_figures(model);
		model_run(model, 10 * SEC);
		double sum = measure_part(model, 0, 10 * SEC) + measure_part(model, 1, 10 * SEC);
		if (sum < hosts[i].sum)
			FAIL("wakes of %.1f ms: %.1f %%", (double)hosts[i].wake / 1e6, sum);
		// The charged turn includes the time that the thread took to wake up.
		model_account(model, 0, &first);
		model_account(model, 1, &second);
		CHECK(fabs((double)first.charged_ns / (double)(first.charged_ns + second.charged_ns) - .3) < .003);
		model_destroy(model);
	}
}

// Tests a small share, whose turn is shorter than the time to wake up.
TEST(small_shares_survive_slow_wakes)
{
	struct model_options options;
	struct model *model = begin_model(&options);

	model_destroy(model);
	options.wake_ns = 5 * MS;
	model = model_create(&options);
	start_vgpu(model, 2, &train);
	start_vgpu(model, 98, &train);
	model_run(model, 10 * SEC);
	CHECK(model_process(model, 0)->kernels > 100);
	CHECK(measure_part(model, 1, 10 * SEC) > 75);
	model_destroy(model);
}

TEST(gates_open_without_an_arbiter_until_the_next_one)
{
	struct model_options options;
	struct model *model = begin_model(&options);
	struct turn_account account;

	start_vgpu(model, 30, &train);
	start_vgpu(model, 70, &train);
	for (int i = 0; i < 10; i++) {
		model_run(model, (500 + (uint64_t)i * 7) * MS);
		model_stop_arbiter(model);
		CHECK(gap_of(model, 0, SEC) <= 350 * MS);
		CHECK(gap_of(model, 1, SEC) <= 350 * MS);
		model_start_arbiter(model);
		model_account(model, 0, &account);
		CHECK(account.virtual_ns <= 0);
		model_run(model, SEC + 100 * MS); // gates that opened stay open for a second
		model_reset_figures(model);
		model_run(model, 2 * SEC);
		CHECK(fabs(measure_part(model, 0, 2 * SEC) - 29.6) < .6);
	}
	model_destroy(model);
}

// Stops the arbiter for seconds. That time must not be charged to the vGPU that has the turn.
TEST(time_without_a_beat_is_charged_to_no_vgpu)
{
	struct turn_rules rules;
	struct turn_arbiter *arbiter;
	struct turn_facts facts[TURN_VGPUS] = {{.waiting = 1}, {.waiting = 1}};
	struct turn_orders orders;
	struct turn_account account;
	struct turn_total total;
	unsigned int a, b;

	turn_rules(TURN_MODE_TIME, &rules);
	CHECK_INT(turn_create(&rules, SEC, 0, &arbiter), 0);
	CHECK_INT(turn_join(arbiter, &(struct turn_terms){50}, SEC, &a), 0);
	CHECK_INT(turn_join(arbiter, &(struct turn_terms){50}, SEC, &b), 0);
	turn_decide(arbiter, facts, SEC, &orders);
	CHECK(orders.holder >= 0);
	facts[orders.holder] =
		(struct turn_facts){.in_flight = 1, .launches = 1, .began_ns = SEC + MS, .eta_ns = 10 * SEC};
	turn_decide(arbiter, facts, 9 * SEC, &orders);
	turn_read_total(arbiter, &total);
	turn_read(arbiter, a, &account);
	CHECK(total.elapsed_ns == 8 * SEC && total.charged_ns <= TURN_BEAT_NS && account.charged_ns > 0);
	CHECK(total.charged_ns + total.overhead_ns + total.idle_ns == 8 * SEC);
	turn_destroy(arbiter);
}

// Tests a vGPU with three processes. It must get the same share as a vGPU with one process.
TEST(processes_of_a_vgpu_divide_its_share)
{
	struct model_options options;
	struct model *model = begin_model(&options);
	unsigned int many = model_add_vgpu(model, 30, false, false), one = model_add_vgpu(model, 70, false, false);

	for (int i = 0; i < 3; i++)
		model_start_process(model, many, &train);
	unsigned int single = model_start_process(model, one, &train);
	model_run(model, SEC);
	model_reset_figures(model);
	model_run(model, 10 * SEC);
	double whole = measure_part(model, single, 10 * SEC), parts = 0;
	for (unsigned int i = 0; i < 3; i++) {
		// The vGPU's processes pay for the context switches among them.
		CHECK(measure_part(model, i, 10 * SEC) > 7.5);
		parts += measure_part(model, i, 10 * SEC);
	}
	CHECK(whole + parts > 96.5 && fabs(whole / (whole + parts) - .7) < .008);
	model_destroy(model);
}

TEST(gate_of_a_checkpointed_vgpu_is_open)
{
	struct model_options options;
	struct model *model = begin_model(&options);

	unsigned int dumped = start_vgpu(model, 30, &train);
	unsigned int other = start_vgpu(model, 70, &train);
	model_run(model, 500 * MS);
	model_set_terms(model, 0, &(struct turn_terms){30, .is_exempt = true});
	model_run(model, MS);
	CHECK_INT(model_gate(model, 0)->word, 0);
	model_stop(model, dumped); // a checkpoint stops the process
	model_run(model, 100 * MS);
	model_reset_figures(model);
	model_run(model, SEC);
	CHECK(measure_part(model, other, SEC) > 97);
	model_set_terms(model, 0, &(struct turn_terms){30});
	model_continue(model, dumped);
	model_run(model, 200 * MS);
	model_reset_figures(model);
	model_run(model, 2 * SEC);
	CHECK(fabs(measure_part(model, dumped, 2 * SEC) - 29.6) < .6);
	model_destroy(model);
}

// ---- hostile slots

TEST(false_end_of_work_costs_only_its_own_vgpu)
{
	struct model_options options;
	struct model *model = begin_model(&options);

	unsigned int liar = start_vgpu(model, 50, &train), other = start_vgpu(model, 50, &train);
	model_run(model, 200 * MS);
	model_reset_figures(model);
	for (int i = 0; i < 10000; i++) {
		model_slot(model, liar)->eta_ns = i % 3 ? UINT64_MAX : 0;
		model_slot(model, liar)->idle_ns = i % 2 ? 0 : UINT64_MAX;
		model_slot(model, liar)->began_ns = UINT64_MAX;
		model_run(model, 200 * US);
	}
	CHECK(measure_part(model, other, 2 * SEC) > 45);
	CHECK(model_process(model, other)->longest_wait_ns <= options.rules.round_ns + 2 * 20 * MS);
	model_destroy(model);
}

// Announces requests that do not exist. A batch vGPU must gain nothing by that, and a latency vGPU no more than its
// budget.
TEST(false_requests_gain_no_more_than_the_share)
{
	for (int latency = 0; latency < 2; latency++) {
		struct model_options options;
		struct model *model = begin_model(&options);
		unsigned int liar = model_start_process(model, model_add_vgpu(model, 20, latency, false), &train);
		unsigned int other = start_vgpu(model, 80, &train);
		model_run(model, SEC);
		model_reset_figures(model);
		for (int i = 0; i < 40000; i++) {
			model_slot(model, liar)->urgent = 1;
			model_run(model, 100 * US);
		}
		CHECK(measure_part(model, other, 4 * SEC) >= 78);
		CHECK(measure_part(model, liar, 4 * SEC) >= 19);
		model_destroy(model);
	}
}

TEST(flooded_bell_does_not_change_shares)
{
	struct model_options options;
	struct model *model = begin_model(&options);

	start_vgpu(model, 30, &train);
	start_vgpu(model, 70, &train);
	model_run(model, SEC);
	model_reset_figures(model);
	for (int i = 0; i < 200000; i++) {
		model_ring(model);
		model_run(model, 10 * US);
	}
	CHECK(fabs(measure_part(model, 0, 2 * SEC) - 29.6) < .6 && fabs(measure_part(model, 1, 2 * SEC) - 69.2) < .6);
	model_destroy(model);
}

TEST(device_has_room_for_127_vgpus)
{
	struct model_options options;
	struct model *model = begin_model(&options);
	struct turn_rules rules;
	struct turn_arbiter *arbiter;
	unsigned int index;

	for (unsigned int i = 0; i < TURN_VGPUS; i++)
		start_vgpu(model, i ? 0 : 50, &train);
	model_run(model, 4 * SEC);
	for (unsigned int i = 0; i < TURN_VGPUS; i++)
		CHECK(model_process(model, i)->kernels > 20);
	CHECK(longest_wait(model, TURN_VGPUS) <= TURN_VGPUS * (6 + 20) * MS);
	model_destroy(model);

	turn_rules(TURN_MODE_TIME, &rules);
	CHECK_INT(turn_create(&rules, 0, 0, &arbiter), 0);
	for (unsigned int i = 0; i < TURN_VGPUS; i++)
		CHECK_INT(turn_join(arbiter, &(struct turn_terms){0}, 0, &index), 0);
	CHECK_INT(turn_join(arbiter, &(struct turn_terms){0}, 0, &index), TURN_FULL);
	turn_leave(arbiter, 5, 1);
	CHECK_INT(turn_join(arbiter, &(struct turn_terms){0}, 2, &index), 0);
	CHECK_INT(index, 5);
	turn_destroy(arbiter);
}
