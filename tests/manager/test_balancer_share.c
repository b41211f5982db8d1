// Checks that shares and compute units follow the load, that they are returned later, and that a constant load is not
// moved back and forth.
#include "balancer_world.h"

#define NO_MOVES (VG_ACTION_MIGRATE | VG_ACTION_PREEMPT)
static const struct balancer_rules loans = {.threshold = 0.2, .forbidden = NO_MOVES | VG_ACTION_SCALE_UNITS};
static const struct balancer_rules units = {.threshold = 0.2, .forbidden = NO_MOVES | VG_ACTION_ADJUST_SHARE};

static void use(struct balancer_load *load, double utilization)
{
	load->utilization_known = true;
	load->utilization = utilization;
}

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-6;
}

TEST(a_share_is_lent_and_returned)
{
	struct world world = {.loads = {load_of(1, 0.4, 9, 1), load_of(2, 0.6, 0, 0)}, .count = 2};

	use(&world.loads[0], 1);
	// The balancer lends nothing yet: in the first round, work has not waited long enough. In the second, the other
	// virtual GPU's utilization is still unknown.
	CHECK_INT(play(&world, &loans), 0);
	CHECK_INT(play(&world, &loans), 0);
	use(&world.loads[1], 0.5);
	CHECK_INT(play(&world, &loans), 1);
	// The lender leaves half of its share unused. It lends half of that unused part.
	CHECK(near(world.loads[0].share, 0.55) && near(world.loads[1].share, 0.45));
	CHECK_CONTAINS(world.decisions[0].why,
		       "vGPU 1 has 9 waiting with a share of 0.400, vGPU 2 has 0 with 0.600 and uses "
		       "0.50 of it: 0.150 goes");
	use(&world.loads[1], 0.05);
	for (int i = 0; i < 20; i++)
		play(&world, &loans);
	// A lender keeps at least half of its own share.
	CHECK(near(world.loads[1].share, 0.3));
	CHECK(near(world.loads[0].share, 0.7));
	world.loads[0].waiting = 0;
	CHECK_INT(play(&world, &loans), 0);
	CHECK_INT(play(&world, &loans), 0);
	// The loan ends now, since the borrower had no waiting work in three consecutive rounds.
	CHECK_INT(play(&world, &loans), 1);
	CHECK(near(world.loads[0].share, 0.4) && near(world.loads[1].share, 0.6));
	CHECK_CONTAINS(world.decisions[0].why, "the load is over");
	CHECK_INT(play(&world, &loans), 0);
	end_world(&world);
}

TEST(a_lender_in_need_gets_its_share_back)
{
	struct world world = {.loads = {load_of(1, 0.4, 9, 1), load_of(2, 0.4, 0, 0)}, .count = 2};
	unsigned lent = 0;

	use(&world.loads[1], 0);
	for (int i = 0; i < 4; i++)
		play(&world, &loans);
	CHECK(world.loads[0].share > 0.5 && world.loads[1].share < 0.3);
	world.loads[1].waiting = 2;
	for (int i = 0; i < BALANCER_PATIENCE; i++)
		play(&world, &loans);
	CHECK(near(world.loads[0].share, 0.4) && near(world.loads[1].share, 0.4));
	CHECK_CONTAINS(world.decisions[0].why, "the lender needs it");
	// The lender's load comes and goes, so loans turn out to be wrong. After each wrong loan the balancer waits
	// longer before the next one.
	for (int i = 0; i < 400; i++) {
		world.loads[1].waiting = world.loads[1].share < 0.35 ? 2 : 0;
		play(&world, &loans);
		for (size_t d = 0; d < world.decided; d++)
			lent += !world.decisions[d].returns;
	}
	CHECK(lent >= 2 && lent <= 8);
	end_world(&world);
}

TEST(loans_at_most_double_a_share)
{
	struct world world = {.loads = {load_of(1, 0.1, 99, 1), load_of(2, 0.9, 0, 0)}, .count = 2};

	use(&world.loads[1], 0);
	for (int i = 0; i < 20; i++)
		play(&world, &loans);
	CHECK(near(world.loads[0].share, 0.2) && near(world.loads[1].share, 0.8));
	end_world(&world);
}

TEST(shares_set_by_others_are_kept)
{
	struct world world = {.loads = {load_of(1, 0.4, 9, 1), load_of(2, 0.4, 0, 0)}, .count = 2};

	use(&world.loads[1], 0.5);
	for (int i = 0; i < 2; i++)
		play(&world, &loans);
	CHECK(near(world.loads[0].share, 0.5));
	world.loads[1].share = 0.35; // the program itself changes the lender's share, which ends the loan
	world.loads[0].waiting = 0;
	for (int i = 0; i < 10; i++)
		// No loan is left that could be returned.
		CHECK_INT(play(&world, &loans), 0);
	CHECK(near(world.loads[0].share, 0.5) && near(world.loads[1].share, 0.35));
	// Closes the lender by removing it from the loads. Its loans end with it.
	world.loads[0].waiting = 9;
	for (int i = 0; i < 2; i++)
		play(&world, &loans);
	CHECK(world.loads[0].share > 0.5);
	world.count = 1;
	world.loads[0].waiting = 0;
	for (int i = 0; i < 5; i++)
		CHECK_INT(play(&world, &loans), 0);
	end_world(&world);
}

TEST(unclaimed_units_are_added_and_returned)
{
	struct world world = {.loads = {load_of(1, 0.25, 9, 1), load_of(2, 0.25, 0, 0)}, .count = 2};

	for (int i = 0; i < 2; i++) {
		world.loads[i].units = 4;
		world.loads[i].max_units = 16;
	}
	CHECK_INT(play(&world, &units), 0);
	CHECK_INT(play(&world, &units), 1);
	// A virtual GPU may at most double its own compute units, from 4 to 8.
	CHECK(world.loads[0].units == 8 && near(world.loads[0].share, 0.5));
	CHECK_CONTAINS(world.decisions[0].why, "4 of 16 units");
	world.loads[1].waiting = 1;
	play(&world, &units);
	CHECK_INT(play(&world, &units), 1);
	// All 16 compute units are in use now, so no more can be added.
	CHECK(world.loads[1].units == 8 && world.loads[0].units == 8);
	CHECK_INT(play(&world, &units), 0);
	world.loads[0].waiting = world.loads[1].waiting = 0;
	for (int i = 0; i < BALANCER_CALM; i++)
		play(&world, &units);
	CHECK(world.loads[0].units == 4 && world.loads[1].units == 4 && near(world.loads[0].share, 0.25));
	CHECK_INT(play(&world, &units), 0);
	end_world(&world);
}

// Completes work in one round of the model. The whole device would complete `work` executions, and each virtual GPU
// completes its share of them. What one virtual GPU does not use goes to the others.
static void serve(struct world *world, unsigned work)
{
	double left = work;

	for (size_t i = 0; i < world->count; i++) {
		struct balancer_load *load = &world->loads[i];
		double part = load->share * work;
		size_t has = load->waiting + load->unbound, done = has < part ? has : (size_t)part;
		size_t bound = done < load->waiting ? done : load->waiting;
		load->waiting -= bound;
		load->unbound -= done - bound;
		left -= (double)done;
		use(load, part >= 1 ? (double)done / part : 0);
	}
	for (size_t i = 0; i < world->count && left >= 1; i++) {
		struct balancer_load *load = &world->loads[i];
		size_t done = load->waiting < left ? load->waiting : (size_t)left;
		load->waiting -= done;
		left -= (double)done;
	}
}

// For any constant load, moved work never moves back, and the shares stop changing.
TEST(a_constant_load_is_not_moved_back_and_forth)
{
	static const unsigned arrivals[][3] = {{30, 0, 0},  {30, 5, 0},	 {20, 10, 10}, {14, 13, 12},
					       {60, 50, 0}, {0, 40, 39}, {33, 33, 33}, {50, 1, 49}};

	for (size_t row = 0; row < sizeof arrivals / sizeof *arrivals; row++) {
		struct world world = {.loads = {load_of(1, 0.4, 0, 0), load_of(2, 0.3, 0, 0), load_of(3, 0.2, 0, 0)},
				      .count = 3};
		unsigned moved[WORLD][WORLD] = {{0}}, late = 0;
		for (int i = 0; i < 3; i++) {
			world.loads[i].units = (unsigned)(world.loads[i].share * 20 + 0.5);
			world.loads[i].max_units = 20;
		}
		for (int round = 0; round < 600; round++) {
			for (int i = 0; i < 3; i++)
				world.loads[i].waiting += arrivals[row][i];
			play(&world, &usual);
			for (size_t d = 0; d < world.decided; d++) {
				const struct balancer_decision *decision = &world.decisions[d];
				if (decision->action == VG_ACTION_MIGRATE)
					moved[decision->from][decision->to]++;
				else if (round >= 300)
					late++;
			}
			serve(&world, 50);
		}
		for (int a = 0; a < 3; a++)
			for (int b = 0; b < a; b++)
				if (moved[a][b] && moved[b][a])
					FAIL("row %zu: %u moves from %d to %d and %u back", row, moved[a][b], a + 1,
					     b + 1, moved[b][a]);
		if (late > 4)
			FAIL("row %zu: %u changes of shares after 300 rounds", row, late);
		end_world(&world);
	}
}
