// Tests the estimates of how long a launch takes.
#include "test.h"

#include "turn/estimate.h"

#define US 1000ull
#define MS 1000000ull
#define SEC 1000000000ull

static const char kernel;
static struct turn_estimates estimates;

TEST(estimates_follow_measurements)
{
	bool sample;
	uint64_t a = turn_shape(&kernel, 100), b = turn_shape(&kernel, 101);

	estimates = (struct turn_estimates){0};
	CHECK(turn_estimate(&estimates, a, 1500 * US, &sample) == 1500 * US && sample);
	CHECK(turn_estimate(&estimates, a, 400 * US, &sample) == 400 * US && sample);
	turn_estimate_learn(&estimates, a, 160 * US);
	CHECK(turn_estimate(&estimates, a, MS, &sample) == 160 * US && !sample);
	CHECK(turn_estimate(&estimates, b, MS, &sample) == MS && sample);
	turn_estimate_learn(&estimates, a, 320 * US); // the estimate changes by a quarter of the difference
	CHECK_INT(turn_estimate(&estimates, a, MS, &sample), 200 * US);
	turn_estimate_learn(&estimates, a, 40 * US);
	CHECK_INT(turn_estimate(&estimates, a, MS, &sample), 160 * US);
	for (int i = 0; i < 40; i++)
		turn_estimate_learn(&estimates, a, 0);
	CHECK_INT(turn_estimate(&estimates, a, MS, &sample), 16);
	turn_estimate_learn(&estimates, b, UINT64_MAX);
	CHECK(turn_estimate(&estimates, b, MS, &sample) > 2000 * SEC);
}

// A shape identifies launches of one kernel with one grid size. The table of estimates has sets of TURN_WAYS entries.
// Makes TURN_WAYS + 1 shapes that belong to one set, so one of them must lose its entry.
TEST(shapes_keep_separate_estimates)
{
	enum { SHAPES = TURN_WAYS + 1 };
	bool sample;
	int known = 0;

	estimates = (struct turn_estimates){0};
	for (uint64_t i = 0; i < SHAPES; i++) {
		CHECK(turn_estimate(&estimates, (i + 5) << 44, MS, &sample) == MS && sample);
		turn_estimate_learn(&estimates, (i + 5) << 44, (i + 1) * 160 * US);
		CHECK_INT(turn_estimate(&estimates, (i + 5) << 44, MS, &sample), (i + 1) * 160 * US);
	}
	for (uint64_t i = 0; i < SHAPES; i++) {
		uint64_t ns = turn_estimate(&estimates, (i + 5) << 44, 16, &sample);
		CHECK(sample ? ns == 16 : ns == (i + 1) * 160 * US);
		known += !sample;
	}
	CHECK_INT(known, TURN_WAYS);
}

// Fills the table as a training program does, with about a hundred kernels of several grid sizes each.
TEST(table_has_room_for_the_shapes_of_a_program)
{
	enum { KERNELS = 100, GRIDS = 4 };
	bool sample;
	int unknown = 0;

	estimates = (struct turn_estimates){0};
	for (int round = 0; round < 2; round++)
		for (uint64_t i = 0; i < KERNELS * GRIDS; i++) {
			uint64_t shape = turn_shape((const char *)0x55550000 + i / GRIDS * 0x1a0, i % GRIDS * 96 + 1);
			turn_estimate(&estimates, shape, MS, &sample);
			unknown += round && sample;
			turn_estimate_learn(&estimates, shape, 100 * US);
		}
	CHECK(unknown <= 4);
}

// Tests samples of a short kernel. The first of 16 launches finds the device busy with another process.
TEST(long_samples_of_a_short_kernel_are_capped)
{
	enum { SEQUENCE = 16, SAMPLES = 40 * SEQUENCE };
	bool sample;
	int samples = 0, long_samples = 0;
	uint64_t shape = turn_shape(&kernel, 100), most = 0;

	estimates = (struct turn_estimates){0};
	turn_estimate_learn(&estimates, shape, 10 * US);
	for (int i = 0; samples < SAMPLES; i++) {
		uint64_t ns = turn_estimate(&estimates, shape, 1500 * US, &sample);
		most = ns > most ? ns : most;
		if (!sample)
			continue;
		turn_estimate_learn(&estimates, shape, i % SEQUENCE ? 10 * US : 2 * MS);
		long_samples += i % SEQUENCE == 0;
		samples++;
	}
	CHECK(long_samples > 0 && long_samples <= SAMPLES / 6);
	CHECK(most < 20 * US);
}

TEST(one_launch_in_61_is_a_sample)
{
	bool sample;
	int samples = 0;
	uint64_t shape = turn_shape(&kernel, 100);

	estimates = (struct turn_estimates){0};
	turn_estimate_learn(&estimates, shape, MS);
	for (int i = 0; i < 10 * TURN_SAMPLE; i++) {
		CHECK_INT(turn_estimate(&estimates, shape, 0, &sample), MS / 16 * 16);
		samples += sample;
	}
	CHECK_INT(samples, 10);
}

// Tests a long kernel whose first launch loads the code, and therefore takes twice as long.
TEST(estimate_of_a_long_kernel_converges_soon)
{
	bool sample;
	int launches = 0;
	uint64_t shape = turn_shape(&kernel, 100);

	estimates = (struct turn_estimates){0};
	turn_estimate_learn(&estimates, shape, 10 * MS);
	while (turn_estimate(&estimates, shape, 0, &sample) > 5700 * US && launches++ < 1000)
		if (sample)
			turn_estimate_learn(&estimates, shape, 5 * MS);
	CHECK(launches <= 50);
}

// Tests a persistent kernel, which has the same launch shape for every size of its problem.
TEST(estimate_follows_a_kernel_that_takes_longer_than_before)
{
	bool sample;
	int launches = 0;
	uint64_t shape = turn_shape(&kernel, 100);

	estimates = (struct turn_estimates){0};
	turn_estimate_learn(&estimates, shape, 50 * US);
	turn_estimate_learn(&estimates, shape, 10 * MS); // this is the first sample
	while (turn_estimate(&estimates, shape, 0, &sample) < 7500 * US && launches++ < 1000)
		if (sample)
			turn_estimate_learn(&estimates, shape, 10 * MS);
	CHECK(launches <= 40);
}

// turn_estimate_add() estimates and counts the short launches, and leaves all others to turn_estimate().
TEST(short_launches_are_added)
{
	bool sample;
	int added = 0, samples = 0;
	uint64_t shape = turn_shape(&kernel, 100), sum = 5;

	estimates = (struct turn_estimates){0};
	CHECK(!turn_estimate_add(&estimates, shape, SEC, &sum)); // unknown
	CHECK(!turn_estimate_add(&estimates, 1, SEC, &sum));	 // unknown, and the bits of its tag are 0
	turn_estimate_learn(&estimates, shape, 16 * US);
	CHECK(!turn_estimate_add(&estimates, shape, 16 * US - 1, &sum));
	CHECK_INT(sum, 5);
	for (int i = 0; i < 10 * TURN_SAMPLE; i++)
		if (turn_estimate_add(&estimates, shape, 16 * US, &sum)) {
			added++;
		} else {
			CHECK_INT(turn_estimate(&estimates, shape, 0, &sample), 16 * US);
			CHECK(sample);
			samples++;
		}
	CHECK_INT(samples, 10);
	CHECK_INT(sum, 5 + (uint64_t)added * 16 * US);
}
