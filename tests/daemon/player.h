// A process in a vGPU that simulates a pager, without a GPU. The daemon writes requests to move memory into the ledger
// (struct pager_page, in pager/page.h). The player answers them as its plan says.
#pragma once
#include "base/clock.h"
#include "ledger/ledger.h"
#include "pager/page.h"
#include "test.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct player_plan {
	uint64_t bytes; // bytes of charged memory that can move; 0: no memory
	// Why the player does not move its memory to the host when the daemon requests that. PAGER_DONE: it moves it.
	// PAGER_DEVICE: it moves its memory to the host, but not back to the device.
	enum pager_reason reason;
	uint32_t row;
	uint64_t missing;
	unsigned int slow_ms; // how long the player takes to move the memory out or back
	bool is_silent;	      // the player never answers
	bool is_host;	      // the player calls vg_ledger_set_host(), as a program to which the vGPU belongs does
	bool breaks;	      // the player's first attempt to move memory fails
};

static inline void player_state(struct pager_slot *slot, const struct vg_ledger *ledger, enum pager_state state)
{
	slot->since_ns = vg_ledger_clock_ns(ledger);
	slot->state = state;
}

static inline void player_move(struct pager_slot *slot, const struct vg_ledger *ledger, const struct player_plan *plan,
			       bool out)
{
	uint64_t begin = vg_clock_monotonic_ns();

	player_state(slot, ledger, out ? PAGER_CLOSING : PAGER_COMING);
	if (out)
		player_state(slot, ledger, PAGER_LEAVING);
	poll(NULL, 0, (int)plan->slow_ms);
	slot->host = out ? plan->bytes : 0;
	slot->moves += out;
	slot->moved_ns = vg_clock_monotonic_ns() - begin;
	player_state(slot, ledger, out ? PAGER_OUT : PAGER_RUNNING);
}

static inline void player_obey(struct pager_slot *slot, const struct vg_ledger *ledger, const struct player_plan *plan,
			       bool out)
{
	bool is_out = slot->state == PAGER_OUT, gives_up = plan->reason && out == (plan->reason != PAGER_DEVICE);

	slot->reason = PAGER_DONE;
	if (!plan->bytes || is_out == out)
		return;
	if (plan->breaks) {
		player_state(slot, ledger, PAGER_BROKEN);
	} else if (gives_up) {
		slot->row = plan->row;
		slot->missing = plan->missing;
		slot->reason = plan->reason;
	} else {
		player_move(slot, ledger, plan, out);
	}
}

__attribute__((noreturn)) static inline void player_play(const struct vg_ledger *ledger, const struct player_plan *plan)
{
	struct pager_slot *slot = vg_ledger_pager_slot(ledger);
	const struct pager_page *page = vg_ledger_pager_page(ledger);

	while (plan->is_silent)
		pause();
	for (;;) {
		uint32_t bell = atomic_load_explicit(&slot->bell, memory_order_acquire);
		player_obey(slot, ledger, plan, page->out || slot->out);
		atomic_store_explicit(&slot->answered, bell, memory_order_release);
		syscall(SYS_futex, &slot->bell, FUTEX_WAIT, bell, NULL, NULL, 0);
	}
}

// Starts a player in the vGPU with the ledger `path`. Returns its pid after the player has entered the vGPU.
static inline pid_t start_player(const char *path, const struct player_plan *plan)
{
	int ready[2];
	char byte = 0;

	if (pipe(ready) < 0)
		FAIL("pipe");
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		struct vg_ledger *ledger;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (vg_ledger_open(path, &ledger) || vg_ledger_enter(ledger) ||
		    vg_ledger_reserve(ledger, VG_LEDGER_DEVICE, plan->bytes))
			_exit(1);
		if (plan->is_host)
			vg_ledger_set_host(ledger);
		struct pager_slot *slot = vg_ledger_pager_slot(ledger);
		slot->bytes = plan->bytes;
		player_state(slot, ledger, plan->bytes ? PAGER_RUNNING : PAGER_NONE);
		if (write(ready[1], "1", 1) != 1)
			_exit(1);
		player_play(ledger, plan);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		FAIL("no player in %s", path);
	close(ready[0]);
	return child;
}

// Returns the pager's part of the slot of process `pid`. The test has mapped the ledger.
static inline struct pager_slot *player_slot(const struct vg_ledger *ledger, pid_t pid)
{
	struct vg_ledger_tenant tenant;
	unsigned int cursor = 0;

	while (vg_ledger_next_tenant(ledger, &cursor, &tenant))
		if (tenant.owner.pid == (uint32_t)pid)
			return &vg_ledger_pager_slots(ledger)[tenant.slot];
	FAIL("process %d has no slot", (int)pid);
}
