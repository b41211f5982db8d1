// Implements the gate of compute units that take part in the turns of a vGPU. The interposer does the same for a
// program inside a vGPU (turn/gate.h). The scheduler's thread does not sleep at the gate, because other units may
// launch meanwhile. Instead, it checks the gate in every round.
#include "compute/turn.h"

#include "base/status.h"
#include "ledger/ledger.h"
#include "turn/gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Maximum number of gates whose changes wake the thread. If more compute units wait, the thread also wakes every
// millisecond to check the others.
enum { WORDS = 63 };
static const uint64_t look_ns = 1000000, spin_ns = 25000;

struct compute_turn {
	const struct vg_ledger *ledger;
	struct turn_process process;
	struct turn_wait wait;
	bool waits;	   // the compute unit waits at the gate
	uint32_t restores; // how often the process had been restored when `process.slot` was set
	uint32_t word;	   // value of the gate's word at the last check
	uint64_t step_ns;  // how long the thread may sleep, as of the last check
};

static void ring_arbiter(struct compute_turn *turn)
{
	atomic_fetch_add(&turn->process.page->bell, 1);
	syscall(SYS_futex, &turn->process.page->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

// Updates the slot after a restore gave the process a new one. Returns false while the process has none, because it is
// being dumped or restored.
static bool follow_slot(struct compute_turn *turn)
{
	struct turn_slot *slot = vg_ledger_turn_slot(turn->ledger);
	uint32_t restores = vg_ledger_restores(turn->ledger);

	if (slot && (slot != turn->process.slot || restores != turn->restores)) {
		turn->process = (struct turn_process){.page = turn->process.page, .slot = slot};
		turn->restores = restores;
		turn->waits = false;
		turn_watch_begin(&turn->process);
	}
	return slot != NULL;
}

static uint32_t read_word(const struct compute_turn *turn)
{
	return atomic_load_explicit(&turn->process.page->word, memory_order_acquire);
}

static void end_wait(struct compute_turn *turn)
{
	if (turn->waits)
		turn_wait_end(&turn->process);
	turn->waits = false;
}

bool compute_turn_admits(struct vg_compute_unit *unit)
{
	struct compute_turn *turn = unit->turn;

	if (!turn || (!turn->waits && !read_word(turn)) || !follow_slot(turn))
		return true;
	uint64_t now = vg_ledger_clock_ns(turn->ledger);
	if (!turn->waits && turn_gate_admits(&turn->process, now))
		return true;
	if (!turn->waits)
		turn_wait_begin(&turn->process, &turn->wait, now);
	turn->waits = true;
	struct turn_action action = turn_wait_look(&turn->process, &turn->wait, now);
	if (action.ring)
		ring_arbiter(turn);
	if (action.step == TURN_STEP_LAUNCH) {
		end_wait(turn);
		return true;
	}
	turn->word = action.word;
	turn->step_ns = action.step == TURN_STEP_SPIN || action.ns < spin_ns ? spin_ns : action.ns;
	return false;
}

uint64_t compute_turn_room(const struct vg_compute_unit *unit)
{
	const struct compute_turn *turn = unit->turn;

	if (!turn || turn_word_state(read_word(turn)) != TURN_HELD)
		return UINT64_MAX;
	const struct turn_page *page = turn->process.page;
	return turn_window(atomic_load_explicit(&page->window_us, memory_order_relaxed),
			   atomic_load_explicit(&page->ahead_ns, memory_order_relaxed),
			   vg_ledger_clock_ns(turn->ledger));
}

void compute_turn_count(struct vg_compute_unit *unit, uint64_t estimate_ns)
{
	struct compute_turn *turn = unit->turn;

	if (turn && read_word(turn) && follow_slot(turn) &&
	    turn_count_launches(&turn->process, 1, estimate_ns, vg_ledger_clock_ns(turn->ledger)))
		ring_arbiter(turn);
}

// Returns the estimated time of the compute unit's work in flight, plus 1 ns. Returns 0 if no work is in flight or the
// context has failed.
static uint64_t estimate_left(const struct vg_compute_unit *unit)
{
	const struct compute_lane *apart = unit->home && unit->home->apart ? unit->home : NULL;

	if (unit->compute->failure)
		return 0;
	if (apart)
		return apart->launches ? apart->ahead + 1 : 0;
	// 1 more than the estimate: 0 would mean that nothing is in flight
	return unit->in_quanta ? unit->in_flight_ns + 1 : 0;
}

static void check_unit(struct vg_compute_unit *unit, bool progress)
{
	struct compute_turn *turn = unit->turn;
	uint64_t left = estimate_left(unit);

	if (!follow_slot(turn))
		return;
	if (!unit->ready || unit->compute->failure)
		end_wait(turn);
	if ((progress || !left) && atomic_load_explicit(&turn->process.slot->eta_ns, memory_order_relaxed) &&
	    turn_report_flight(&turn->process, left, vg_ledger_clock_ns(turn->ledger)))
		ring_arbiter(turn);
}

void compute_turns_look(struct vg_compute *compute, bool progress)
{
	for (struct vg_compute_unit *unit = compute->units; unit; unit = unit->next)
		if (unit->turn)
			check_unit(unit, progress);
}

// Lists the gate words whose change must wake the thread. Returns how long the thread may sleep; UINT64_MAX: no compute
// unit waits.
static uint64_t list_words(const struct vg_compute *compute, struct futex_waitv words[WORDS], unsigned *ret_count)
{
	uint64_t ns = UINT64_MAX;
	unsigned count = 0;

	for (const struct vg_compute_unit *unit = compute->units; unit; unit = unit->next) {
		const struct compute_turn *turn = unit->turn;
		if (!turn || !turn->waits)
			continue;
		uint64_t step = count < WORDS || turn->step_ns < look_ns ? turn->step_ns : look_ns;
		ns = step < ns ? step : ns;
		if (count < WORDS)
			words[count++] =
				(struct futex_waitv){turn->word, (uintptr_t)&turn->process.page->word, FUTEX_32, 0};
	}
	*ret_count = count;
	return ns;
}

bool compute_turns_sleep(struct vg_compute *compute, unsigned bell, uint64_t now, uint64_t nap)
{
	struct futex_waitv words[WORDS + 1] = {{bell, (uintptr_t)&compute->bell, FUTEX_32 | FUTEX_PRIVATE_FLAG, 0}};
	const struct timespec moment = {0, spin_ns};
	unsigned count;

	pthread_mutex_lock(&compute->lock);
	uint64_t ns = list_words(compute, words + 1, &count);
	pthread_mutex_unlock(&compute->lock);
	if (!count)
		return false;
	uint64_t end = now + (nap && nap < ns ? nap : ns);
	struct timespec until = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
	if (syscall(SYS_futex_waitv, words, count + 1, 0, &until, CLOCK_MONOTONIC) < 0 && errno == ENOSYS)
		nanosleep(&moment, NULL);
	return true;
}

enum vg_status compute_take_turns(struct vg_compute_unit *unit, const struct vg_ledger *ledger)
{
	struct compute_turn *turn = calloc(1, sizeof *turn);
	struct turn_slot *slot = vg_ledger_turn_slot(ledger);

	if (!turn || !slot) {
		free(turn);
		return vg_fail(turn ? VG_STATE : VG_NO_MEMORY, 0, "%s",
			       turn ? "the ledger has no slot of this process" : "no memory for a gate");
	}
	turn->ledger = ledger;
	turn->process = (struct turn_process){.page = vg_ledger_turn_page(ledger), .slot = slot};
	turn->restores = vg_ledger_restores(ledger);
	turn_watch_begin(&turn->process); // from here on the scheduler's thread reports when work has ended
	pthread_mutex_lock(&unit->compute->lock);
	unit->turn = turn;
	pthread_mutex_unlock(&unit->compute->lock);
	compute_ring(unit->compute, COMPUTE_RING_ALWAYS);
	return VG_OK;
}

void compute_turn_leave(struct vg_compute_unit *unit)
{
	struct compute_turn *turn = unit->turn;

	unit->turn = NULL;
	if (turn && follow_slot(turn)) {
		end_wait(turn);
		turn_watch_end(&turn->process);
		if (turn_report_flight(&turn->process, 0, vg_ledger_clock_ns(turn->ledger)))
			ring_arbiter(turn);
	}
	free(turn);
}
