// Kills and stops processes at every step of every operation (steps.h).
#include "base/descriptor.h"
#include "steps.h"

static const uint64_t MIB = 1 << 20, CHARGED = 5 << 20;

// The operations of a process. The test runs each operation once for each of its steps.
static void do_reserve(struct vg_ledger *ledger)
{
	vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 2 * MIB);
}

static void do_refused_reserve(struct vg_ledger *ledger)
{
	if (vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, 100 * MIB) != VG_LEDGER_REFUSED)
		_exit(3);
}

static void do_work(struct vg_ledger *ledger)
{
	vg_ledger_reserve(ledger, VG_LEDGER_CONTEXT, MIB);
	vg_ledger_reserve(ledger, VG_LEDGER_POOL, 2 * MIB);
	vg_ledger_refund(ledger, VG_LEDGER_CONTEXT, MIB);
	vg_ledger_reserve(ledger, VG_LEDGER_VMM, 3 * MIB);
	vg_ledger_refund(ledger, VG_LEDGER_POOL, MIB);
}

static void do_work_and_leave(struct vg_ledger *ledger)
{
	vg_ledger_reserve(ledger, VG_LEDGER_POOL, 2 * MIB);
	vg_ledger_leave(ledger);
}

static void do_limit(struct vg_ledger *ledger)
{
	uint64_t charged;

	vg_ledger_set_limit(ledger, 32 * MIB, &charged);
	vg_ledger_set_limit(ledger, 16 * MIB, &charged);
}

static void check_others_can_charge(struct vg_ledger *ledger)
{
	uint64_t limit, charged, before = vg_ledger_charged(ledger);

	alarm(20);
	CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, MIB), 0);
	CHECK_INT(vg_ledger_charged(ledger), before + MIB);
	vg_ledger_refund(ledger, VG_LEDGER_DEVICE, MIB);
	vg_ledger_read(ledger, &limit, &charged);
	CHECK_INT(charged, before);
	CHECK_INT(vg_ledger_set_limit(ledger, limit, &charged), 0);
	alarm(0);
}

// Kills a tenant at every step, and reaps it. With `between`, another process charges memory and changes the limit
// before the tenant is reaped. These operations replace the ledger's tag, which names the last operation.
static int kill_at_every_step(void (*work)(struct vg_ledger *), bool between)
{
	int step = 0;

	do {
		struct vg_ledger *ledger = create_ledger(16 * MIB);
		CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, CHARGED), 0);
		run_until(ledger, work, step, SIGKILL);
		if (between)
			check_others_can_charge(ledger);
		reap_all_dead(ledger);
		check_sum(ledger, CHARGED);
		vg_ledger_close(ledger);
	} while (!reached_end && ++step < 1000);
	CHECK(reached_end);
	return step;
}

#define EVERY_STEP(name, work, least)                                 \
	TEST(sum_is_exact_if_killed_in_##name)                        \
	{                                                             \
		CHECK(kill_at_every_step(work, false) >= least);      \
	}                                                             \
	TEST(sum_is_exact_if_killed_in_##name##_before_other_changes) \
	{                                                             \
		CHECK(kill_at_every_step(work, true) >= least);       \
	}
EVERY_STEP(reserve, do_reserve, 11)
EVERY_STEP(refused_reserve, do_refused_reserve, 8)
EVERY_STEP(reserve_and_refund, do_work, 45)
EVERY_STEP(leave, do_work_and_leave, 20)
EVERY_STEP(limit, do_limit, 2)

// Kills a tenant at every step of a reservation, and its reaper at every step of reaping the tenant.
static void kill_reaper_at_every_step(bool between)
{
	for (int step = 0;; step++) {
		for (int reaper_step = 0;; reaper_step++) {
			struct vg_ledger *ledger = create_ledger(16 * MIB);
			CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, CHARGED), 0);
			run_until(ledger, do_reserve, step, SIGKILL);
			bool tenant_ended = reached_end;
			run_until(ledger, reap_dead, reaper_step, SIGKILL);
			bool reaper_ended = reached_end;
			if (between)
				check_others_can_charge(ledger);
			run_until(ledger, reap_dead, reaper_step / 2, SIGKILL); // a second reaper is killed, too
			reap_all_dead(ledger);
			check_sum(ledger, CHARGED);
			vg_ledger_close(ledger);
			if (reaper_ended) {
				// a reaper has at least four steps, even if the tenant was killed at its first step
				CHECK(reaper_step >= 4);
				if (!tenant_ended)
					break;
				CHECK(step >= 11 && reaper_step >= 13);
				return;
			}
		}
	}
}

TEST(sum_is_exact_if_reaper_is_killed)
{
	kill_reaper_at_every_step(false);
}

TEST(sum_is_exact_if_reaper_is_killed_before_other_changes)
{
	kill_reaper_at_every_step(true);
}

// Tests that a stopped process blocks no other process, and completes its work when it continues.
TEST(stopped_process_blocks_no_other)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = create_ledger(16 * MIB);
		CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, CHARGED), 0);
		pid_t child = run_until(ledger, do_work, step, SIGSTOP);
		if (!reached_end) {
			check_others_can_charge(ledger);
			kill(child, SIGCONT);
			CHECK_CHILD(child);
		}
		CHECK_INT(vg_ledger_charged(ledger), CHARGED + 4 * MIB);
		CHECK_INT(reap_all_dead(ledger), 4 * MIB);
		check_sum(ledger, CHARGED);
		vg_ledger_close(ledger);
		if (reached_end) {
			CHECK(step >= 45);
			return;
		}
	}
}

// Tests that a stopped reaper blocks no other process, and is reaped itself after it is killed.
TEST(stopped_reaper_blocks_no_other)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = create_ledger(16 * MIB);
		CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, CHARGED), 0);
		run_until(ledger, do_reserve, 1000, SIGKILL);
		pid_t child = run_until(ledger, reap_dead, step, SIGSTOP);
		bool ended = reached_end;
		check_others_can_charge(ledger);
		if (!ended) {
			kill(child, SIGKILL);
			CHECK_INT(waitpid(child, NULL, 0), child);
		}
		reap_all_dead(ledger);
		check_sum(ledger, CHARGED);
		vg_ledger_close(ledger);
		if (ended)
			return;
	}
}

static void reap_replaced(struct vg_ledger *ledger)
{
	reap_all_replaced(ledger);
}

// Replaces a living process's program by exec, and kills the reaper of the old program at every step of the refund.
TEST(sum_is_exact_if_reaper_of_replaced_program_is_killed)
{
	for (int step = 0;; step++) {
		struct vg_ledger *ledger = create_ledger(16 * MIB);
		struct vg_ledger_tenant tenant;
		unsigned int cursor = 1;
		CHECK_INT(vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, CHARGED), 0);
		pid_t child = fork();
		if (child == 0) {
			do_reserve(ledger);
			execl("/bin/sleep", "sleep", "100", NULL);
			_exit(9);
		}
		while (vg_ledger_charged(ledger) != CHARGED + 2 * MIB)
			usleep(500);
		CHECK(vg_ledger_next_tenant(ledger, &cursor, &tenant));
		while (vg_ledger_program_of(child) == tenant.program)
			usleep(500);
		run_until(ledger, reap_replaced, step, SIGKILL);
		bool ended = reached_end;
		reap_all_replaced(ledger);
		if (ended)
			CHECK_INT(vg_ledger_charged(ledger), CHARGED);
		kill(child, SIGKILL);
		CHECK_INT(waitpid(child, NULL, 0), child);
		reap_all_dead(ledger);
		check_sum(ledger, CHARGED);
		vg_ledger_close(ledger);
		if (ended) {
			CHECK(step >= 14);
			return;
		}
	}
}
