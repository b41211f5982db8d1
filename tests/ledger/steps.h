// Kills or stops a process at each step of an operation. The tests are built with the ledger's sources, which call the
// function ledger_step() at each step.
#pragma once
#include "ledger/layout.h"
#include "ledger_file.h"
#include "test.h"

#include <signal.h>
#include <sys/wait.h>

static int steps_left = -1, signal_at_step;
static bool reached_end; // whether the operation of the last child ended before it reached the step

void ledger_step(const char *where)
{
	if (steps_left >= 0 && steps_left-- == 0)
		kill(getpid(), signal_at_step);
}

// Runs `work` in a child, which gets the signal at step `step`. Returns the child's pid when the child is dead or
// stopped.
static inline pid_t run_until(struct vg_ledger *ledger, void (*work)(struct vg_ledger *), int step, int signal)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		steps_left = step;
		signal_at_step = signal;
		work(ledger);
		_exit(0);
	}
	CHECK_INT(waitpid(child, &status, WUNTRACED), child);
	if (WIFEXITED(status))
		CHECK_INT(WEXITSTATUS(status), 0);
	reached_end = WIFEXITED(status);
	return child;
}

// Checks that the sum of all slots and shared allocations is what is charged, and that only this process has a slot.
static inline void check_sum(struct vg_ledger *ledger, uint64_t expected)
{
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;
	uint64_t sum = vg_ledger_shared_charge(ledger), slots = 0;

	CHECK_INT(vg_ledger_charged(ledger), expected);
	while (vg_ledger_next_tenant(ledger, &cursor, &tenant)) {
		sum += tenant.used;
		slots++;
	}
	CHECK_INT(sum, expected);
	CHECK_INT(slots, 1);
}

static inline void reap_dead(struct vg_ledger *ledger)
{
	reap_all_dead(ledger);
}
