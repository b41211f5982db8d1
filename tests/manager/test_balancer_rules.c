// Tests the balancer's decisions for given loads: the choice of a virtual GPU, migration, and preemption.
#include "balancer_world.h"

static void check_places(enum vg_balancing strategy, struct balancer_load *loads, size_t count, const int *ids,
			 size_t turns)
{
	struct balancer_memory memory = {0};

	OK(balancer_begin_round(&memory, loads, count));
	for (size_t i = 0; i < turns; i++) {
		long place = balancer_choose(strategy, loads, count, &memory);
		if ((place < 0 ? 0 : loads[place].key.id) != ids[i])
			FAIL("turn %zu: virtual GPU %d, not %d", i, place < 0 ? 0 : loads[place].key.id, ids[i]);
		if (place >= 0)
			loads[place].unbound++;
	}
	balancer_memory_finish(&memory);
}

TEST(round_robin_alternates)
{
	struct balancer_load loads[] = {load_of(3, 0.3, 0, 0), load_of(1, 0.6, 90, 9), load_of(2, 0.1, 0, 0)};

	check_places(VG_BALANCE_ROUND_ROBIN, loads, 3, (int[]){1, 2, 3, 1, 2, 3, 1}, 7);
	loads[2].takes_work = false;
	check_places(VG_BALANCE_ROUND_ROBIN, loads, 3, (int[]){1, 3, 1, 3}, 4);
	loads[0].takes_work = loads[1].takes_work = false;
	check_places(VG_BALANCE_ROUND_ROBIN, loads, 3, (int[]){0, 0}, 2);
	struct balancer_load two[] = {load_of(1, 0.5, 0, 0), load_of(1, 0.5, 0, 0)};
	two[1].key.manager = 1;
	struct balancer_memory memory = {0};
	OK(balancer_begin_round(&memory, two, 2));
	for (int i = 0; i < 6; i++)
		CHECK_INT(balancer_choose(VG_BALANCE_ROUND_ROBIN, two, 2, &memory), i % 2);
	balancer_memory_finish(&memory);
}

TEST(least_loaded_compares_work_per_share)
{
	struct balancer_load even[] = {load_of(1, 0.5, 2, 1), load_of(2, 0.5, 0, 1)};
	check_places(VG_BALANCE_LEAST_LOADED, even, 2, (int[]){2, 2, 1, 2, 1}, 5);

	// The virtual GPU with half of the device gets five times as much work as the one with a tenth. While both
	// are idle, the larger one counts as less loaded.
	struct balancer_load uneven[] = {load_of(1, 0.1, 0, 0), load_of(2, 0.5, 0, 0)};
	check_places(VG_BALANCE_LEAST_LOADED, uneven, 2, (int[]){2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 1}, 11);

	struct balancer_load idle[] = {load_of(1, 0.5, 0, 0), load_of(2, 0.5, 0, 0)};
	struct balancer_memory memory = {0};
	OK(balancer_begin_round(&memory, idle, 2));
	for (int i = 0; i < 6; i++) // short work must not always go to the first virtual GPU
		CHECK_INT(balancer_choose(VG_BALANCE_LEAST_LOADED, idle, 2, &memory), i % 2);
	balancer_memory_finish(&memory);

	struct balancer_load used[] = {load_of(1, 0.5, 0, 0), load_of(2, 0.5, 0, 0)};
	used[0].utilization_known = used[1].utilization_known = true;
	used[0].utilization = 0.6, used[1].utilization = 0.1;
	check_places(VG_BALANCE_LEAST_LOADED, used, 2, (int[]){2, 1, 2}, 3);
	used[0].takes_work = false;
	check_places(VG_BALANCE_LEAST_LOADED, used, 2, (int[]){2, 2}, 2);
	check_places(VG_BALANCE_LEAST_LOADED, used, 0, (int[]){0}, 1);
}

TEST(weighted_follows_shares_evenly)
{
	struct balancer_load loads[] = {load_of(1, 0.5, 0, 0), load_of(2, 0.3, 0, 0), load_of(3, 0.2, 0, 0)};
	struct balancer_memory memory = {0};
	unsigned got[4] = {0}, in_a_row = 0;
	int last = 0;

	OK(balancer_begin_round(&memory, loads, 3));
	for (int i = 0; i < 1000; i++) {
		int id = loads[balancer_choose(VG_BALANCE_WEIGHTED, loads, 3, &memory)].key.id;
		got[id]++;
		in_a_row = id == last ? in_a_row + 1 : 1;
		last = id;
		CHECK(in_a_row <= 2);
		if (i % 10 == 9)
			CHECK(got[1] == 5u * (i / 10 + 1) && got[2] == 3u * (i / 10 + 1) &&
			      got[3] == 2u * (i / 10 + 1));
	}
	balancer_memory_finish(&memory);
}

TEST(migration_moves_half_the_difference)
{
	static const struct {
		double share_a, share_b, threshold;
		size_t waiting_a, running_a, waiting_b, running_b;
		size_t moves; // how many executions must move from a to b
	} rows[] = {
		{0.5, 0.5, 0.2, 10, 0, 0, 0, 5},
		// of 11 executions only 5 move: if the odd one moved too, it would move back later
		{0.5, 0.5, 0.2, 11, 0, 0, 0, 5},
		{0.5, 0.5, 0.2, 1, 1, 0, 0, 1},
		{0.5, 0.5, 0.2, 0, 9, 0, 0, 0}, // running work does not move
		// a single execution does not move, since `b` would then have the same load as `a` has now
		{0.5, 0.5, 0.2, 1, 0, 0, 0, 0},
		{0.5, 0.5, 0.2, 10, 0, 8, 0, 0}, // the loads differ by 20 %, which is not more than the threshold
		{0.5, 0.5, 0.1, 10, 0, 8, 0, 1},
		{0.5, 0.5, 0.2, 100, 0, 50, 0, 25},
		{0.8, 0.2, 0.2, 10, 0, 0, 0, 2}, // `b` has a fifth of the compute share, so it gets a fifth of the work
		{0.2, 0.8, 0.2, 10, 0, 0, 0, 8},
		{0.8, 0.2, 0.2, 8, 0, 2, 0, 0},	 // `a` and `b` have equal waiting times already
		{0.5, 0.5, 0.2, 2, 8, 0, 0, 2},	 // only executions that wait can move
		{0.5, 0.5, 1.0, 10, 0, 0, 0, 0}, // no difference exceeds a threshold of 1
		{0.5, 0.5, 0.2, 0, 0, 0, 0, 0},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct world world = {.loads = {load_of(1, rows[i].share_a, rows[i].waiting_a, rows[i].running_a),
						load_of(2, rows[i].share_b, rows[i].waiting_b, rows[i].running_b)},
				      .count = 2};
		struct balancer_rules rules = {.threshold = rows[i].threshold};
		size_t decided = play(&world, &rules);
		size_t moves = decided ? world.decisions[0].executions : 0;
		if (decided != (rows[i].moves > 0) || moves != rows[i].moves)
			FAIL("row %zu: %zu decisions, %zu move, not %zu", i, decided, moves, rows[i].moves);
		if (decided)
			CHECK(world.decisions[0].action == VG_ACTION_MIGRATE && world.decisions[0].from == 0);
		end_world(&world);
	}
}

TEST(decisions_give_reasons_with_figures)
{
	struct world world = {.loads = {load_of(1, 0.5, 10, 2), load_of(2, 0.5, 0, 0)}, .count = 2};

	CHECK_INT(play(&world, &usual), 1);
	CHECK_STR(world.decisions[0].why,
		  "vGPU 1 has 10 waiting and 2 running for a share of 0.50, vGPU 2 0 and 0 for 0.50: "
		  "1.00 apart, more than 0.20; 6 that wait move");
	end_world(&world);
}

TEST(only_unbound_work_moves_between_devices)
{
	struct world world = {.loads = {load_of(1, 1, 10, 0), load_of(1, 1, 0, 0)}, .count = 2};

	world.loads[1].key.manager = 1;
	CHECK_INT(play(&world, &usual), 0);
	end_world(&world);
	world.loads[0].waiting = 7;
	world.loads[0].unbound = 3;
	CHECK_INT(play(&world, &usual), 1);
	CHECK_INT(world.decisions[0].executions, 3);
	CHECK(world.loads[0].waiting == 7 && world.loads[0].unbound == 0 && world.loads[1].unbound == 3);
	end_world(&world);
}

TEST(paused_virtual_gpus_get_no_work)
{
	struct world world = {.loads = {load_of(1, 0.5, 10, 0), load_of(2, 0.5, 0, 0)}, .count = 2};

	world.loads[1].takes_work = false;
	CHECK_INT(play(&world, &usual), 0);
	world.loads[1].takes_work = true;
	world.loads[0].takes_work = false;
	// This virtual GPU is paused. Executions that are bound to it stay with it.
	CHECK_INT(play(&world, &usual), 0);
	world.loads[0].status = VG_VIRTUAL_GPU_PAUSED;
	world.loads[0].unbound = 3;
	world.loads[1].running = 9;
	// Three executions are not bound to the paused virtual GPU yet. They move to the other one.
	CHECK_INT(play(&world, &usual), 1);
	CHECK(world.loads[0].unbound == 0 && world.loads[1].unbound == 3);
	CHECK_CONTAINS(world.decisions[0].why, "vGPU 1 is paused: the 3 executions that wait for it");
	world.loads[1].unbound = world.loads[1].running = 0;
	end_world(&world);
	struct balancer_rules never = {.threshold = 0.2, .forbidden = VG_ACTION_MIGRATE};
	world.loads[0].takes_work = true;
	CHECK_INT(play(&world, &never), 0);
	CHECK_INT(play(&world, &usual), 1);
	end_world(&world);
}

TEST(migration_balances_several_virtual_gpus)
{
	struct world world = {.loads = {load_of(1, 0.25, 40, 0), load_of(2, 0.25, 0, 0), load_of(3, 0.25, 0, 0),
					load_of(4, 0.25, 0, 0)},
			      .count = 4};

	for (int round = 0; round < 2 * BALANCER_HOLD + 4; round++)
		play(&world, &usual);
	for (int i = 0; i < 4; i++)
		CHECK(world.loads[i].waiting >= 8 && world.loads[i].waiting <= 12);
	// The loads are equal, so no more work moves.
	CHECK_INT(play(&world, &usual), 0);
	end_world(&world);
}

TEST(preemption_requires_waiting_work_of_higher_priority)
{
	static const struct {
		int priority_a, priority_b;
		size_t waiting_a, running_a, running_b;
		unsigned forbidden;
		bool preempts; // whether the quantum of `b` is ended so that `a` can run
	} rows[] = {
		{5, 1, 3, 0, 2, 0, true},  {5, 5, 3, 0, 2, 0, false}, {1, 5, 3, 0, 2, 0, false},
		{5, 1, 3, 1, 2, 0, false}, // `a` has running work already, so nothing must be preempted for it
		{5, 1, 0, 0, 2, 0, false}, {5, 1, 3, 0, 0, 0, false}, {5, 1, 3, 0, 2, VG_ACTION_PREEMPT, false},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct world world = {.loads = {load_of(1, 0.5, rows[i].waiting_a, rows[i].running_a),
						load_of(2, 0.5, 0, rows[i].running_b)},
				      .count = 2};
		struct balancer_rules rules = {.threshold = 0.2, .forbidden = rows[i].forbidden | VG_ACTION_MIGRATE};
		world.loads[0].priority = rows[i].priority_a;
		world.loads[1].priority = rows[i].priority_b;
		// The balancer decides nothing in the first round, because the load must last for more than one round.
		CHECK_INT(play(&world, &rules), 0);
		size_t decided = play(&world, &rules);
		if (decided != rows[i].preempts)
			FAIL("row %zu: %zu decisions", i, decided);
		if (decided) {
			CHECK(world.decisions[0].action == VG_ACTION_PREEMPT);
			CHECK(world.decisions[0].from == 1 && world.decisions[0].to == 0);
			CHECK_CONTAINS(world.decisions[0].why, "vGPU 1 has 3 waiting with priority 5");
		}
		end_world(&world);
	}
}
