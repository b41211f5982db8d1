// Memory that several processes hold: charged once, whoever goes first, and wherever they are killed.
#include "steps.h"

#include <sys/mman.h>

static const uint64_t MIB = 1 << 20, HELD = 5 << 20, LIMIT = 16 << 20, KEY = 0x1234567890abcdef;

// A share of 2 of the 5 MiB that the test has.
static uint32_t shared_by_the_test(struct vg_ledger *ledger)
{
	uint32_t share;

	CHECK_INT(vg_ledger_share_make(ledger, 2 * MIB, &share), 0);
	CHECK_INT(vg_ledger_share_name(ledger, share, KEY, true), 0);
	return share;
}

static struct vg_ledger *ledger_with_held(void)
{
	struct vg_ledger *ledger = fresh_ledger(LIMIT);

	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_VMM, HELD), 0);
	return ledger;
}

static uint32_t joined(struct vg_ledger *ledger)
{
	uint32_t share;
	uint64_t bytes;

	vg_ledger_enter(ledger);
	if (vg_ledger_share_join(ledger, KEY, &share, &bytes) != 0 || bytes != 2 * MIB)
		_exit(3);
	return share;
}

// How the test itself leaves a share that it owned.
static uint64_t disown(struct vg_ledger *ledger, uint32_t share)
{
	uint64_t passed;

	vg_ledger_share_leave(ledger, share, VG_LEDGER_VMM, 2 * MIB, &passed);
	vg_ledger_refund(ledger, VG_LEDGER_VMM, 2 * MIB - passed);
	return passed;
}

// A child that does `first`, waits to be told, and does `then`.
struct pair {
	pid_t child;
	int told[2], done[2];
};

static void start(struct vg_ledger *ledger, struct pair *pair, void (*first)(struct vg_ledger *),
		  void (*then)(struct vg_ledger *), int step)
{
	char byte = 0;

	CHECK(pipe(pair->told) == 0 && pipe(pair->done) == 0);
	pair->child = fork();
	if (pair->child == 0) {
		first(ledger);
		if (write(pair->done[1], &byte, 1) != 1 || read(pair->told[0], &byte, 1) != 1)
			_exit(4);
		steps_left = step;
		signal_at_step = SIGKILL;
		then(ledger);
		_exit(0);
	}
	close(pair->done[1]);
	CHECK_INT(read(pair->done[0], &byte, 1), 1);
}

static void finish(struct pair *pair)
{
	int status;

	CHECK_INT(write(pair->told[1], "", 1), 1);
	CHECK_INT(waitpid(pair->child, &status, 0), pair->child);
	close(pair->told[0]), close(pair->told[1]), close(pair->done[0]);
	reached_end = WIFEXITED(status);
	if (reached_end)
		CHECK_INT(WEXITSTATUS(status), 0);
}

static uint32_t number;

static void join_it(struct vg_ledger *ledger)
{
	number = joined(ledger);
}

static void leave_it(struct vg_ledger *ledger)
{
	uint64_t passed;

	vg_ledger_share_leave(ledger, number, VG_LEDGER_IMPORT, 0, &passed);
}

static void own_it(struct vg_ledger *ledger)
{
	if (vg_ledger_reserve(ledger, VG_LEDGER_VMM, 2 * MIB) != 0 ||
	    vg_ledger_share_make(ledger, 2 * MIB, &number) != 0 || vg_ledger_share_name(ledger, number, KEY, true) != 0)
		_exit(3);
}

static void disown_it(struct vg_ledger *ledger)
{
	disown(ledger, number);
}

static void nothing(struct vg_ledger *ledger)
{
}

TEST(an_importer_is_not_charged)
{
	struct vg_ledger *ledger = ledger_with_held();
	struct pair pair;
	uint32_t share = shared_by_the_test(ledger);

	start(ledger, &pair, join_it, leave_it, -1);
	CHECK_INT(vg_ledger_charged(ledger), HELD);
	finish(&pair);
	CHECK_INT(vg_ledger_charged(ledger), HELD);
	CHECK_INT(disown(ledger, share), 0);
	reap_all_dead(ledger);
	check_exact(ledger, HELD - 2 * MIB);
	vg_ledger_close(ledger);
}

TEST(the_charge_passes_to_the_share_when_the_owner_goes_first)
{
	struct vg_ledger *ledger = ledger_with_held();
	struct pair pair;
	uint32_t share = shared_by_the_test(ledger);

	start(ledger, &pair, join_it, leave_it, -1);
	CHECK_INT(disown(ledger, share), 2 * MIB);
	CHECK_INT(vg_ledger_charged(ledger), HELD);
	CHECK_INT(vg_ledger_shared(ledger), 2 * MIB);
	CHECK_INT(vg_ledger_used_here(ledger), HELD - 2 * MIB);
	finish(&pair);
	CHECK_INT(vg_ledger_charged(ledger), HELD - 2 * MIB); // by the last one's own hand
	reap_all_dead(ledger);
	check_exact(ledger, HELD - 2 * MIB);
	vg_ledger_close(ledger);
}

TEST(the_dead_owner_leaves_the_charge_to_the_share)
{
	struct vg_ledger *ledger = ledger_with_held();
	struct pair pair;
	uint64_t bytes, passed;
	uint32_t share;

	start(ledger, &pair, own_it, nothing, -1);
	CHECK_INT(vg_ledger_share_join(ledger, KEY, &share, &bytes), 0);
	CHECK_INT(bytes, 2 * MIB);
	finish(&pair);
	CHECK_INT(vg_ledger_charged(ledger), HELD + 2 * MIB);
	CHECK_INT(reap_all_dead(ledger), 0);
	check_exact(ledger, HELD + 2 * MIB);
	vg_ledger_share_leave(ledger, share, VG_LEDGER_IMPORT, 0, &passed);
	check_exact(ledger, HELD);
	CHECK_INT(vg_ledger_share_join(ledger, KEY, &share, &bytes), VG_LEDGER_GONE);
	vg_ledger_close(ledger);
}

// Of two shares of a dead program, one that an open descriptor keeps stays its own.
TEST(what_descriptors_keep_stays_with_the_dead)
{
	struct vg_ledger *ledger = ledger_with_held();
	struct vg_ledger_tenant tenant;
	struct vg_ledger_share_info info;
	uint64_t bytes, refunded;
	uint32_t first, second;
	unsigned int cursor = 1;
	pid_t child = fork();

	if (child == 0) {
		own_it(ledger);
		vg_ledger_reserve(ledger, VG_LEDGER_VMM, 3 * MIB);
		if (vg_ledger_share_make(ledger, 3 * MIB, &number) != 0 ||
		    vg_ledger_share_name(ledger, number, KEY + 1, true) != 0)
			_exit(3);
		vg_ledger_set_exported(ledger, 5 * MIB, 0);
		pause();
	}
	while (vg_ledger_share_join(ledger, KEY + 1, &second, &bytes) != 0)
		usleep(500);
	CHECK_INT(vg_ledger_share_join(ledger, KEY, &first, &bytes), 0);
	kill(child, SIGKILL);
	CHECK_INT(waitpid(child, NULL, 0), child);
	CHECK(vg_ledger_next_tenant(ledger, &cursor, &tenant));
	CHECK_INT(vg_ledger_reap(ledger, &tenant, &(struct vg_ledger_keep){3 * MIB, &second, 1}, &refunded), 0);
	CHECK_INT(refunded, 0);
	CHECK_INT(vg_ledger_shared(ledger), 2 * MIB);
	CHECK_INT(vg_ledger_charged(ledger), HELD + 5 * MIB);
	cursor = 0;
	CHECK(vg_ledger_next_share(ledger, &cursor, &info) && info.share == first && !info.owned);
	CHECK(vg_ledger_next_share(ledger, &cursor, &info) && info.share == second && info.owned && info.owner == 1);
	CHECK(vg_ledger_share_is_held_by(&info, 0) && !vg_ledger_share_is_held_by(&info, 1));
	reap_all_dead(ledger); // the descriptor is closed
	check_exact(ledger, HELD + 5 * MIB);
	CHECK_INT(vg_ledger_shared(ledger), 5 * MIB);
	vg_ledger_share_leave(ledger, first, VG_LEDGER_IMPORT, 0, &bytes);
	vg_ledger_share_leave(ledger, second, VG_LEDGER_IMPORT, 0, &bytes);
	check_exact(ledger, HELD);
	vg_ledger_close(ledger);
}

TEST(a_guest_holds_and_is_charged_nothing)
{
	struct vg_ledger *ledger = ledger_with_held();
	struct vg_ledger_owner self;
	struct vg_ledger_tenant tenant;
	struct pair pair;
	unsigned int cursor = 1;
	uint32_t share, other = shared_by_the_test(ledger);
	uint64_t bytes;

	start(ledger, &pair, nothing, nothing, -1); // a process that never enters
	CHECK_INT(vg_ledger_self(&self), 0);
	self.pid = (uint32_t)pair.child;
	CHECK_INT(vg_process_start_time(pair.child, &self.start_time), 0);
	CHECK_INT(vg_ledger_guest_join(ledger, &self, 0, KEY + 1, &share, &bytes), VG_LEDGER_GONE);
	CHECK_INT(vg_ledger_guest_leave(ledger, &self, other), VG_LEDGER_GONE);
	CHECK_INT(vg_ledger_guest_join(ledger, &self, 0, KEY, &share, &bytes), 0);
	CHECK_INT(bytes, 2 * MIB);
	CHECK_INT(share, other);
	CHECK(vg_ledger_next_tenant(ledger, &cursor, &tenant));
	CHECK(tenant.guest && tenant.used == 0 && tenant.owner.pid == (uint32_t)pair.child);
	CHECK_INT(disown(ledger, share), 2 * MIB);
	CHECK_INT(vg_ledger_guest_leave(ledger, &self, share), 0);
	CHECK_INT(vg_ledger_charged(ledger), HELD - 2 * MIB);
	CHECK_INT(vg_ledger_guest_leave(ledger, &self, share), VG_LEDGER_GONE);
	other = shared_by_the_test(ledger);
	CHECK_INT(vg_ledger_guest_join(ledger, &self, 0, KEY, &share, &bytes), 0);
	CHECK_INT(disown(ledger, other), 2 * MIB);
	finish(&pair);
	reap_all_dead(ledger);
	check_exact(ledger, HELD - 4 * MIB);
	vg_ledger_close(ledger);
}

TEST(names)
{
	struct vg_ledger *ledger = ledger_with_held();
	uint32_t one, two, three;
	uint64_t bytes;

	CHECK_INT(vg_ledger_share_make(ledger, 2 * MIB, &one), 0);
	CHECK_INT(vg_ledger_share_make(ledger, 2 * MIB, &two), 0);
	CHECK(one != two);
	CHECK_INT(vg_ledger_share_name(ledger, one, KEY, false), 0);
	CHECK_INT(vg_ledger_share_name(ledger, one, KEY, false), 0);
	CHECK_INT(vg_ledger_share_name(ledger, two, KEY, false), VG_LEDGER_REFUSED);
	CHECK_INT(vg_ledger_share_name(ledger, two, KEY, true), 0);
	CHECK_INT(vg_ledger_share_join(ledger, KEY, &three, &bytes), VG_LEDGER_GONE); // one's own
	CHECK_INT(vg_ledger_share_name(ledger, one, KEY, false), VG_LEDGER_REFUSED);
	disown(ledger, two);
	CHECK_INT(vg_ledger_share_name(ledger, one, KEY, false), 0);
	CHECK_INT(vg_ledger_share_make(ledger, 2 * MIB, &three), 0);
	CHECK(three != two && three != one); // its place, another number
	disown(ledger, three);
	disown(ledger, one);
	check_exact(ledger, HELD - 5 * MIB); // 6 were shared of 5: no more is refunded than was charged
	vg_ledger_close(ledger);
}

TEST(what_cannot_be_shared)
{
	struct vg_ledger *ledger = fresh_ledger(LIMIT);
	uint32_t share;
	uint64_t passed = 7;

	CHECK_INT(vg_ledger_share_make(ledger, 2 * MIB, &share), VG_LEDGER_FULL); // no slot
	CHECK_INT(vg_ledger_enter(ledger), 0);
	CHECK_INT(vg_ledger_share_make(ledger, 0, &share), VG_LEDGER_FULL);
	CHECK_INT(vg_ledger_share_make(ledger, 4095, &share), VG_LEDGER_FULL);
	CHECK_INT(vg_ledger_share_make(ledger, 1ull << 44, &share), VG_LEDGER_FULL);
	for (int i = 0; i < VG_LEDGER_SHARES; i++)
		CHECK_INT(vg_ledger_share_make(ledger, 4096, &share), 0);
	CHECK_INT(vg_ledger_share_make(ledger, 4096, &share), VG_LEDGER_FULL);
	for (uint64_t i = 0; i < LEDGER_NAME_TRIES; i++)
		CHECK_INT(vg_ledger_share_name(ledger, share, KEY + i * LEDGER_NAMES, true), 0);
	CHECK_INT(vg_ledger_share_name(ledger, share, KEY + (1ull << 40), true), VG_LEDGER_FULL);
	vg_ledger_share_leave(ledger, 0, VG_LEDGER_VMM, 0, &passed);
	vg_ledger_share_leave(ledger, UINT32_MAX, VG_LEDGER_VMM, 0, &passed);
	CHECK_INT(passed, 0);
	vg_ledger_leave(ledger);
	CHECK_INT(vg_ledger_enter(ledger), 0);
	CHECK_INT(vg_ledger_share_make(ledger, 4096, &share), 0); // all places are free again
	vg_ledger_close(ledger);
}

static void make_and_unmake(struct vg_ledger *ledger)
{
	own_it(ledger);
	disown_it(ledger);
}

TEST(killed_at_every_step_of_a_share_of_its_own)
{
	int step = 0;

	do {
		struct vg_ledger *ledger = ledger_with_held();
		run_until(ledger, make_and_unmake, step, SIGKILL);
		reap_all_dead(ledger);
		check_exact(ledger, HELD);
		vg_ledger_close(ledger);
	} while (!reached_end && ++step < 1000);
	CHECK(step >= 31);
}

static void join_and_leave(struct vg_ledger *ledger)
{
	join_it(ledger);
	leave_it(ledger);
}

TEST(killed_at_every_step_of_joining_and_leaving)
{
	for (int owner_first = 0, step = 0; owner_first < 2; step++) {
		struct vg_ledger *ledger = ledger_with_held();
		uint32_t share = shared_by_the_test(ledger);
		run_until(ledger, join_and_leave, step, SIGKILL);
		bool ended = reached_end;
		if (owner_first) // while the dead one still stands among the holders
			disown(ledger, share);
		reap_all_dead(ledger);
		if (!owner_first)
			CHECK_INT(disown(ledger, share), 0);
		check_exact(ledger, HELD - 2 * MIB);
		vg_ledger_close(ledger);
		if (ended) {
			CHECK(step >= 9);
			owner_first++;
			step = -1;
		}
	}
}

// The owner is killed at every step of its way out while the test holds what it shared.
TEST(killed_owner_on_its_way_out)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = ledger_with_held();
		struct pair pair;
		uint64_t bytes, passed;
		uint32_t share;
		start(ledger, &pair, own_it, disown_it, step);
		CHECK_INT(vg_ledger_share_join(ledger, KEY, &share, &bytes), 0);
		finish(&pair);
		CHECK_INT(vg_ledger_charged(ledger), HELD + 2 * MIB);
		reap_all_dead(ledger);
		check_exact(ledger, HELD + 2 * MIB);
		vg_ledger_share_leave(ledger, share, VG_LEDGER_IMPORT, 0, &passed);
		check_exact(ledger, HELD);
		vg_ledger_close(ledger);
		if (reached_end) {
			CHECK(step >= 6);
			return;
		}
	}
}

// The last holder of an orphan is killed on its way out, and its reaper at every step of the reaping.
TEST(killed_last_holder_and_killed_reaper)
{
	for (int step = 0, reaper_step = 0;;) {
		struct vg_ledger *ledger = ledger_with_held();
		struct pair pair;
		uint32_t share = shared_by_the_test(ledger);
		start(ledger, &pair, join_it, leave_it, step);
		CHECK_INT(disown(ledger, share), 2 * MIB);
		finish(&pair);
		bool ended = reached_end;
		CHECK(vg_ledger_charged(ledger) >= HELD - 2 * MIB && vg_ledger_charged(ledger) <= HELD);
		run_until(ledger, do_reap, reaper_step, SIGKILL);
		bool reaper_ended = reached_end;
		reap_all_dead(ledger);
		check_exact(ledger, HELD - 2 * MIB);
		vg_ledger_close(ledger);
		reaper_step++;
		if (!reaper_ended)
			continue;
		CHECK(reaper_step > 4);
		reaper_step = 0;
		step++;
		if (ended)
			break;
	}
}

// The reaper of a dead owner is killed at every step, while the test holds what that shared.
TEST(killed_reaper_of_an_owner)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = ledger_with_held();
		struct pair pair;
		uint64_t bytes, passed;
		uint32_t share;
		start(ledger, &pair, own_it, nothing, -1);
		CHECK_INT(vg_ledger_share_join(ledger, KEY, &share, &bytes), 0);
		finish(&pair);
		run_until(ledger, do_reap, step, SIGKILL);
		bool ended = reached_end;
		CHECK_INT(vg_ledger_charged(ledger), HELD + 2 * MIB);
		run_until(ledger, do_reap, step / 2, SIGKILL); // and a second one
		reap_all_dead(ledger);
		check_exact(ledger, HELD + 2 * MIB);
		vg_ledger_share_leave(ledger, share, VG_LEDGER_IMPORT, 0, &passed);
		check_exact(ledger, HELD);
		vg_ledger_close(ledger);
		if (ended) {
			CHECK(step >= 10);
			return;
		}
	}
}
