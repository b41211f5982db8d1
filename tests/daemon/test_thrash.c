// Tests the report of devices whose vGPUs move memory for much of the time.
#include "daemon/thrash.h"
#include "test.h"

static const uint64_t second = 1000000000;
static struct thrash thrash;

// Lets memory move for `moving_ms` of each second, for so many seconds. Returns the last report, and adds the number of
// reports to *count.
static unsigned int run(uint64_t *now, unsigned int seconds, unsigned int moving_ms, unsigned int *count)
{
	unsigned int last = 0;

	for (unsigned int i = 0; i < seconds; i++, *now += second)
		for (unsigned int ms = 0; ms < 1000; ms += 10) {
			unsigned int percent = thrash_note(&thrash, ms < moving_ms, *now + ms * second / 1000);
			*count += percent > 0;
			last = percent ? percent : last;
		}
	return last;
}

TEST(much_moving_is_reported_each_minute)
{
	uint64_t now = 5 * second;
	unsigned int count = 0;

	thrash = (struct thrash){0};
	CHECK_INT(run(&now, 59, 300, &count), 0);
	CHECK_INT(run(&now, 130, 300, &count), 30);
	CHECK_INT(count, 3);
}

TEST(little_moving_is_not_reported)
{
	uint64_t now = 5 * second;
	unsigned int count = 0;

	thrash = (struct thrash){0};
	run(&now, 600, 200, &count);
	run(&now, 600, 0, &count);
	CHECK_INT(count, 0);
}

// The daemon looks less often while no memory moves. The time between two looks counts as moving if memory was moving
// at the first of them.
TEST(time_between_looks_counts_as_the_first_look)
{
	thrash = (struct thrash){0};
	CHECK_INT(thrash_note(&thrash, false, second), 0);
	CHECK_INT(thrash_note(&thrash, true, 500 * second), 0); // a new window begins
	CHECK_INT(thrash_note(&thrash, false, 530 * second), 0);
	CHECK_INT(thrash_note(&thrash, false, 560 * second), 50);
}
