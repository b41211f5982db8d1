// Checks that shared allocations are charged once, in whatever order processes leave them, and wherever processes are
// killed.
#include "steps.h"

#include <sys/mman.h>

static const uint64_t MIB = 1 << 20, CHARGED = 5 << 20, LIMIT = 16 << 20, KEY = 0x1234567890abcdef;

// Turns 2 of the 5 MiB that this process has charged into a shared allocation.
static uint32_t share_own_memory(struct vg_ledger *ledger)
{
	uint32_t share;

	CHECK_INT(vg_ledger_shared_create(ledger, 2 * MIB, &share), 0);
	CHECK_INT(vg_ledger_shared_add_name(ledger, share, KEY, true), 0);
	return share;
}

static struct vg_ledger *create_charged_ledger(void)
{
	struct vg_ledger *ledger = create_ledger(LIMIT);

	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_VMM, CHARGED), 0);
	return ledger;
}

static uint32_t join(struct vg_ledger *ledger)
{
	uint32_t share;
	uint64_t bytes;

	vg_ledger_enter(ledger);
	if (vg_ledger_shared_join(ledger, KEY, &share, &bytes) != 0 || bytes != 2 * MIB)
		_exit(3);
	return share;
}

// Releases a shared allocation. This process is its owner.
static uint64_t leave_as_owner(struct vg_ledger *ledger, uint32_t share)
{
	uint64_t passed;

	vg_ledger_shared_leave(ledger, share, VG_LEDGER_VMM, 2 * MIB, &passed);
	vg_ledger_refund(ledger, VG_LEDGER_VMM, 2 * MIB - passed);
	return passed;
}

// A child process that runs `first`, waits for finish(), and then runs `then`.
struct pair {
	pid_t child;
	int go[2], done[2];
};

static void start(struct vg_ledger *ledger, struct pair *pair, void (*first)(struct vg_ledger *),
		  void (*then)(struct vg_ledger *), int step)
{
	char byte = 0;

	CHECK(pipe(pair->go) == 0 && pipe(pair->done) == 0);
	pair->child = fork();
	if (pair->child == 0) {
		first(ledger);
		if (write(pair->done[1], &byte, 1) != 1 || read(pair->go[0], &byte, 1) != 1)
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

	CHECK_INT(write(pair->go[1], "", 1), 1);
	CHECK_INT(waitpid(pair->child, &status, 0), pair->child);
	close(pair->go[0]), close(pair->go[1]), close(pair->done[0]);
	reached_end = WIFEXITED(status);
	if (reached_end)
		CHECK_INT(WEXITSTATUS(status), 0);
}

static uint32_t number;

static void act_join(struct vg_ledger *ledger)
{
	number = join(ledger);
}

static void act_leave(struct vg_ledger *ledger)
{
	uint64_t passed;

	vg_ledger_shared_leave(ledger, number, VG_LEDGER_IMPORT, 0, &passed);
}

static void act_own(struct vg_ledger *ledger)
{
	if (vg_ledger_reserve(ledger, VG_LEDGER_VMM, 2 * MIB) != 0 ||
	    vg_ledger_shared_create(ledger, 2 * MIB, &number) != 0 ||
	    vg_ledger_shared_add_name(ledger, number, KEY, true) != 0)
		_exit(3);
}

static void act_disown(struct vg_ledger *ledger)
{
	leave_as_owner(ledger, number);
}

static void act_nothing(struct vg_ledger *ledger)
{
}

TEST(holder_is_not_charged)
{
	struct vg_ledger *ledger = create_charged_ledger();
	struct pair pair;
	uint32_t share = share_own_memory(ledger);

	start(ledger, &pair, act_join, act_leave, -1);
	CHECK_INT(vg_ledger_charged(ledger), CHARGED);
	finish(&pair);
	CHECK_INT(vg_ledger_charged(ledger), CHARGED);
	CHECK_INT(leave_as_owner(ledger, share), 0);
	reap_all_dead(ledger);
	check_sum(ledger, CHARGED - 2 * MIB);
	vg_ledger_close(ledger);
}

TEST(charge_passes_on_when_owner_leaves_first)
{
	struct vg_ledger *ledger = create_charged_ledger();
	struct pair pair;
	uint32_t share = share_own_memory(ledger);

	start(ledger, &pair, act_join, act_leave, -1);
	CHECK_INT(leave_as_owner(ledger, share), 2 * MIB);
	CHECK_INT(vg_ledger_charged(ledger), CHARGED);
	CHECK_INT(vg_ledger_shared_charge(ledger), 2 * MIB);
	CHECK_INT(vg_ledger_used_here(ledger), CHARGED - 2 * MIB);
	finish(&pair);
	// The last holder has refunded the shared allocation.
	CHECK_INT(vg_ledger_charged(ledger), CHARGED - 2 * MIB);
	reap_all_dead(ledger);
	check_sum(ledger, CHARGED - 2 * MIB);
	vg_ledger_close(ledger);
}

TEST(charge_passes_on_when_dead_owner_is_reaped)
{
	struct vg_ledger *ledger = create_charged_ledger();
	struct pair pair;
	uint64_t bytes, passed;
	uint32_t share;

	start(ledger, &pair, act_own, act_nothing, -1);
	CHECK_INT(vg_ledger_shared_join(ledger, KEY, &share, &bytes), 0);
	CHECK_INT(bytes, 2 * MIB);
	finish(&pair);
	CHECK_INT(vg_ledger_charged(ledger), CHARGED + 2 * MIB);
	CHECK_INT(reap_all_dead(ledger), 0);
	check_sum(ledger, CHARGED + 2 * MIB);
	vg_ledger_shared_leave(ledger, share, VG_LEDGER_IMPORT, 0, &passed);
	check_sum(ledger, CHARGED);
	CHECK_INT(vg_ledger_shared_join(ledger, KEY, &share, &bytes), VG_LEDGER_GONE);
	vg_ledger_close(ledger);
}

// Keeps an allocation by an open descriptor after its owner has ended. The dead program must stay the owner until the
// descriptor is closed.
TEST(dead_owner_keeps_allocations_of_open_descriptors)
{
	struct vg_ledger *ledger = create_charged_ledger();
	struct vg_ledger_tenant tenant;
	struct vg_ledger_shared_info info;
	uint64_t bytes, refunded;
	uint32_t first, second;
	unsigned int cursor = 1;
	pid_t child = fork();

	if (child == 0) {
		act_own(ledger);
		vg_ledger_reserve(ledger, VG_LEDGER_VMM, 3 * MIB);
		if (vg_ledger_shared_create(ledger, 3 * MIB, &number) != 0 ||
		    vg_ledger_shared_add_name(ledger, number, KEY + 1, true) != 0)
			_exit(3);
		vg_ledger_set_exported(ledger, 5 * MIB, 0);
		pause();
	}
	while (vg_ledger_shared_join(ledger, KEY + 1, &second, &bytes) != 0)
		usleep(500);
	CHECK_INT(vg_ledger_shared_join(ledger, KEY, &first, &bytes), 0);
	kill(child, SIGKILL);
	CHECK_INT(waitpid(child, NULL, 0), child);
	CHECK(vg_ledger_next_tenant(ledger, &cursor, &tenant));
	CHECK_INT(vg_ledger_reap(ledger, &tenant, &(struct vg_ledger_keep){3 * MIB, &second, 1}, &refunded), 0);
	CHECK_INT(refunded, 0);
	CHECK_INT(vg_ledger_shared_charge(ledger), 2 * MIB);
	CHECK_INT(vg_ledger_charged(ledger), CHARGED + 5 * MIB);
	cursor = 0;
	CHECK(vg_ledger_next_shared(ledger, &cursor, &info) && info.number == first && !info.owned);
	CHECK(vg_ledger_next_shared(ledger, &cursor, &info) && info.number == second && info.owned && info.owner == 1);
	CHECK(vg_ledger_shared_is_held_by(&info, 0) && !vg_ledger_shared_is_held_by(&info, 1));
	reap_all_dead(ledger); // the descriptor was closed before
	check_sum(ledger, CHARGED + 5 * MIB);
	CHECK_INT(vg_ledger_shared_charge(ledger), 5 * MIB);
	vg_ledger_shared_leave(ledger, first, VG_LEDGER_IMPORT, 0, &bytes);
	vg_ledger_shared_leave(ledger, second, VG_LEDGER_IMPORT, 0, &bytes);
	check_sum(ledger, CHARGED);
	vg_ledger_close(ledger);
}

TEST(guest_holds_without_charge)
{
	struct vg_ledger *ledger = create_charged_ledger();
	struct vg_ledger_owner self;
	struct vg_ledger_tenant tenant;
	struct pair pair;
	unsigned int cursor = 1;
	uint32_t share, other = share_own_memory(ledger);
	uint64_t bytes;

	// This child does not enter the vGPU.
	start(ledger, &pair, act_nothing, act_nothing, -1);
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
	CHECK_INT(leave_as_owner(ledger, share), 2 * MIB);
	CHECK_INT(vg_ledger_guest_leave(ledger, &self, share), 0);
	CHECK_INT(vg_ledger_charged(ledger), CHARGED - 2 * MIB);
	CHECK_INT(vg_ledger_guest_leave(ledger, &self, share), VG_LEDGER_GONE);
	other = share_own_memory(ledger);
	CHECK_INT(vg_ledger_guest_join(ledger, &self, 0, KEY, &share, &bytes), 0);
	CHECK_INT(leave_as_owner(ledger, other), 2 * MIB);
	finish(&pair);
	reap_all_dead(ledger);
	check_sum(ledger, CHARGED - 4 * MIB);
	vg_ledger_close(ledger);
}

TEST(names_are_added_replaced_and_freed)
{
	struct vg_ledger *ledger = create_charged_ledger();
	uint32_t one, two, three;
	uint64_t bytes;

	CHECK_INT(vg_ledger_shared_create(ledger, 2 * MIB, &one), 0);
	CHECK_INT(vg_ledger_shared_create(ledger, 2 * MIB, &two), 0);
	CHECK(one != two);
	CHECK_INT(vg_ledger_shared_add_name(ledger, one, KEY, false), 0);
	CHECK_INT(vg_ledger_shared_add_name(ledger, one, KEY, false), 0);
	CHECK_INT(vg_ledger_shared_add_name(ledger, two, KEY, false), VG_LEDGER_REFUSED);
	CHECK_INT(vg_ledger_shared_add_name(ledger, two, KEY, true), 0);
	// This process owns the allocation already, so it cannot join it.
	CHECK_INT(vg_ledger_shared_join(ledger, KEY, &three, &bytes), VG_LEDGER_GONE);
	CHECK_INT(vg_ledger_shared_add_name(ledger, one, KEY, false), VG_LEDGER_REFUSED);
	leave_as_owner(ledger, two);
	CHECK_INT(vg_ledger_shared_add_name(ledger, one, KEY, false), 0);
	CHECK_INT(vg_ledger_shared_create(ledger, 2 * MIB, &three), 0);
	// The new allocation uses the same table entry, but has a new number.
	CHECK(three != two && three != one);
	leave_as_owner(ledger, three);
	leave_as_owner(ledger, one);
	// Shared allocations of 6 MiB were created, but only 5 MiB were charged. So the refund is limited to 5 MiB.
	check_sum(ledger, CHARGED - 5 * MIB);
	vg_ledger_close(ledger);
}

TEST(invalid_sizes_and_full_tables_are_refused)
{
	struct vg_ledger *ledger = create_ledger(LIMIT);
	uint32_t share;
	uint64_t passed = 7;

	// This process has no slot yet.
	CHECK_INT(vg_ledger_shared_create(ledger, 2 * MIB, &share), VG_LEDGER_FULL);
	CHECK_INT(vg_ledger_enter(ledger), 0);
	CHECK_INT(vg_ledger_shared_create(ledger, 0, &share), VG_LEDGER_FULL);
	CHECK_INT(vg_ledger_shared_create(ledger, 4095, &share), VG_LEDGER_FULL);
	CHECK_INT(vg_ledger_shared_create(ledger, 1ull << 44, &share), VG_LEDGER_FULL);
	for (int i = 0; i < VG_LEDGER_SHARED_COUNT; i++)
		CHECK_INT(vg_ledger_shared_create(ledger, 4096, &share), 0);
	CHECK_INT(vg_ledger_shared_create(ledger, 4096, &share), VG_LEDGER_FULL);
	for (uint64_t i = 0; i < LEDGER_NAME_TRIES; i++)
		CHECK_INT(vg_ledger_shared_add_name(ledger, share, KEY + i * LEDGER_NAMES, true), 0);
	CHECK_INT(vg_ledger_shared_add_name(ledger, share, KEY + (1ull << 40), true), VG_LEDGER_FULL);
	vg_ledger_shared_leave(ledger, 0, VG_LEDGER_VMM, 0, &passed);
	vg_ledger_shared_leave(ledger, UINT32_MAX, VG_LEDGER_VMM, 0, &passed);
	CHECK_INT(passed, 0);
	vg_ledger_leave(ledger);
	CHECK_INT(vg_ledger_enter(ledger), 0);
	// All entries are free again.
	CHECK_INT(vg_ledger_shared_create(ledger, 4096, &share), 0);
	vg_ledger_close(ledger);
}

static void act_own_and_leave(struct vg_ledger *ledger)
{
	act_own(ledger);
	act_disown(ledger);
}

TEST(sum_is_exact_if_owner_is_killed_at_any_step)
{
	int step = 0;

	do {
		struct vg_ledger *ledger = create_charged_ledger();
		run_until(ledger, act_own_and_leave, step, SIGKILL);
		reap_all_dead(ledger);
		check_sum(ledger, CHARGED);
		vg_ledger_close(ledger);
	} while (!reached_end && ++step < 1000);
	CHECK(step >= 31);
}

static void act_join_and_leave(struct vg_ledger *ledger)
{
	act_join(ledger);
	act_leave(ledger);
}

TEST(sum_is_exact_if_holder_is_killed_at_any_step)
{
	for (int owner_first = 0, step = 0; owner_first < 2; step++) {
		struct vg_ledger *ledger = create_charged_ledger();
		uint32_t share = share_own_memory(ledger);
		run_until(ledger, act_join_and_leave, step, SIGKILL);
		bool ended = reached_end;
		if (owner_first) // the dead process is still one of the holders in this case
			leave_as_owner(ledger, share);
		reap_all_dead(ledger);
		if (!owner_first)
			CHECK_INT(leave_as_owner(ledger, share), 0);
		check_sum(ledger, CHARGED - 2 * MIB);
		vg_ledger_close(ledger);
		if (ended) {
			CHECK(step >= 9);
			owner_first++;
			step = -1;
		}
	}
}

// Kills the owner at every step of releasing the allocation, while this process is a holder.
TEST(sum_is_exact_if_leaving_owner_is_killed)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = create_charged_ledger();
		struct pair pair;
		uint64_t bytes, passed;
		uint32_t share;
		start(ledger, &pair, act_own, act_disown, step);
		CHECK_INT(vg_ledger_shared_join(ledger, KEY, &share, &bytes), 0);
		finish(&pair);
		CHECK_INT(vg_ledger_charged(ledger), CHARGED + 2 * MIB);
		reap_all_dead(ledger);
		check_sum(ledger, CHARGED + 2 * MIB);
		vg_ledger_shared_leave(ledger, share, VG_LEDGER_IMPORT, 0, &passed);
		check_sum(ledger, CHARGED);
		vg_ledger_close(ledger);
		if (reached_end) {
			CHECK(step >= 6);
			return;
		}
	}
}

// Kills the last holder at every step of releasing the allocation, after the owner has released it. Also kills the
// holder's reaper at every step of reaping.
TEST(sum_is_exact_if_last_holder_and_reaper_are_killed)
{
	for (int step = 0, reaper_step = 0;;) {
		struct vg_ledger *ledger = create_charged_ledger();
		struct pair pair;
		uint32_t share = share_own_memory(ledger);
		start(ledger, &pair, act_join, act_leave, step);
		CHECK_INT(leave_as_owner(ledger, share), 2 * MIB);
		finish(&pair);
		bool ended = reached_end;
		CHECK(vg_ledger_charged(ledger) >= CHARGED - 2 * MIB && vg_ledger_charged(ledger) <= CHARGED);
		run_until(ledger, reap_dead, reaper_step, SIGKILL);
		bool reaper_ended = reached_end;
		reap_all_dead(ledger);
		check_sum(ledger, CHARGED - 2 * MIB);
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

// Kills the reaper of the dead owner at every step, while this process is a holder of the allocation.
TEST(sum_is_exact_if_reaper_of_owner_is_killed)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = create_charged_ledger();
		struct pair pair;
		uint64_t bytes, passed;
		uint32_t share;
		start(ledger, &pair, act_own, act_nothing, -1);
		CHECK_INT(vg_ledger_shared_join(ledger, KEY, &share, &bytes), 0);
		finish(&pair);
		run_until(ledger, reap_dead, step, SIGKILL);
		bool ended = reached_end;
		CHECK_INT(vg_ledger_charged(ledger), CHARGED + 2 * MIB);
		run_until(ledger, reap_dead, step / 2, SIGKILL); // a second reaper is killed, too
		reap_all_dead(ledger);
		check_sum(ledger, CHARGED + 2 * MIB);
		vg_ledger_shared_leave(ledger, share, VG_LEDGER_IMPORT, 0, &passed);
		check_sum(ledger, CHARGED);
		vg_ledger_close(ledger);
		if (ended) {
			CHECK(step >= 10);
			return;
		}
	}
}
