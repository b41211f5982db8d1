#include "turn/gate.h"

#define SPIN_NS 20000ull
#define SPIN_SOON_NS 1000000ull // how long a thread spins if the gate opens soon
#define LARGE_WINDOW_NS 1000000ull
#define POLL_LEAST_NS 10000ull
#define POLL_MOST_NS 1000000ull
#define SLEEP_NS (TURN_BEAT_NS / 3)
#define UNGATED_NS 1000000000ull // if a process finds that no arbiter runs, its gates stay open for this time

#define LOAD(word) atomic_load_explicit(&(word), memory_order_acquire)
#define STORE(word, value) atomic_store_explicit(&(word), value, memory_order_release)

static uint64_t at_most(uint64_t value, uint64_t most)
{
	return value < most ? value : most;
}

// Returns whether the arbiter is known to have stopped. `beat` is the time of its last beat (sign of life). The arbiter
// has stopped if a thread has already waited for the next beat for too long.
static bool has_arbiter_stopped(struct turn_process *process, uint64_t beat)
{
	return beat && beat == LOAD(process->last_ns);
}

void turn_wait_begin(struct turn_process *process, struct turn_wait *ret_wait, uint64_t now)
{
	*ret_wait = (struct turn_wait){
		.began_ns = now, .awake_ns = now + SPIN_NS, .looked_ns = now, .beat_ns = LOAD(process->page->beat_ns)};
	if (has_arbiter_stopped(process, ret_wait->beat_ns))
		STORE(process->open_ns, now + UNGATED_NS);
	STORE(process->slot->alive_ns, now);
	atomic_fetch_add(&process->slot->waiting, 1);
	turn_watch_begin(process);
}

void turn_wait_end(struct turn_process *process)
{
	turn_watch_end(process);
	atomic_fetch_sub(&process->slot->waiting, 1);
}

// Counts how long the thread has waited without a beat of the arbiter. Returns true if the thread must wake the
// arbiter, which then writes a new beat.
static bool count_quiet_time(struct turn_process *process, struct turn_wait *wait, uint64_t now)
{
	uint64_t beat = LOAD(process->page->beat_ns), took = now - wait->looked_ns, before = wait->quiet_ns;

	wait->looked_ns = now;
	if (beat != wait->beat_ns) {
		wait->beat_ns = beat;
		wait->quiet_ns = 0;
		return false;
	}
	wait->quiet_ns += took < wait->step_ns ? took : wait->step_ns;
	if (wait->quiet_ns >= TURN_BEAT_NS) {
		STORE(process->open_ns, now + UNGATED_NS);
		STORE(process->last_ns, beat);
	}
	return wait->quiet_ns / SLEEP_NS != before / SLEEP_NS;
}

// Returns the time until the next poll. Before `eta`, the estimated end of the work in flight, this is half of the time
// until then. After `eta`, it is a quarter of the time that has passed since.
static uint64_t find_poll_time(uint64_t eta, uint64_t now)
{
	uint64_t ns = eta > now ? (eta - now) / 2 : (now - eta) / 4;

	return ns < POLL_LEAST_NS ? POLL_LEAST_NS : ns > POLL_MOST_NS ? POLL_MOST_NS : ns;
}

static bool is_paused(uint32_t word)
{
	return turn_word_state(word) == TURN_CLOSED && turn_word_is(word, TURN_PAUSED);
}

static struct turn_action wait_for_turn(const struct turn_process *process, struct turn_wait *wait, uint32_t word,
					uint64_t now)
{
	uint64_t eta = LOAD(process->slot->eta_ns);
	struct turn_action action = {.step = TURN_STEP_SLEEP, .word = word, .ns = SLEEP_NS};

	// Wake the arbiter (ring) once for each number of a turn in `word`. The first time is necessary because the
	// arbiter may have read the slot before this thread waited. A new number means that the vGPU had a turn, which
	// ended while this thread slept. The arbiter then grants no turn until it learns that the thread still waits.
	// During a pause, a process with work in flight need not ring (TURN_PAUSED).
	action.ring = wait->rang != turn_word_number(word) + 1 && !(eta && is_paused(word));
	wait->rang = turn_word_number(word) + 1;
	if (turn_word_is(word, TURN_SPIN) && wait->awake_ns < now)
		wait->awake_ns = now + SPIN_SOON_NS;
	if (eta) {
		action.step = TURN_STEP_POLL;
		action.ns = find_poll_time(eta, now);
	} else if (now < wait->awake_ns) {
		action.step = TURN_STEP_SPIN;
		action.ns = wait->awake_ns - now;
	}
	return action;
}

// Decides how long a thread sleeps until the window has room. The thread does not spin, because a spinning thread would
// lose its CPU to other threads. With a large window, it sleeps until a part of the window is free. Work that was never
// measured may end much sooner than estimated, so the thread looks often at first.
static struct turn_action wait_for_window(const struct turn_process *process, struct turn_wait *wait, uint32_t word,
					  uint64_t now)
{
	uint64_t eta = LOAD(process->slot->eta_ns), left = eta > now ? eta - now : 0;
	uint64_t least = LOAD(process->page->window_us) * 1000ull;
	uint64_t window = turn_window(LOAD(process->page->window_us), LOAD(process->page->ahead_ns), now);
	uint64_t ns = (left > window ? left - window : 0) + (least >= LARGE_WINDOW_NS ? least / 8 : 0);

	wait->rang = 0;
	ns = at_most(ns, at_most(left / 2, now - wait->began_ns));
	return (struct turn_action){
		.step = TURN_STEP_POLL, .word = word, .ns = ns > POLL_LEAST_NS ? ns : POLL_LEAST_NS};
}

struct turn_action turn_wait_look(struct turn_process *process, struct turn_wait *wait, uint64_t now)
{
	const struct turn_page *page = process->page;
	uint32_t word = LOAD(page->word);
	bool is_patient = now - wait->began_ns < LOAD(page->patience_us) * 1000ull, asks;
	struct turn_action action = {.step = TURN_STEP_LAUNCH, .word = word};

	STORE(process->slot->alive_ns, now);
	asks = count_quiet_time(process, wait, now);
	if (now < LOAD(process->open_ns) ||
	    turn_admits(word, is_patient ? turn_window(LOAD(page->window_us), LOAD(page->ahead_ns), now) : UINT64_MAX,
			LOAD(page->until_ns), now, LOAD(process->slot->eta_ns)))
		return action;
	action = turn_word_state(word) == TURN_CLOSED ? wait_for_turn(process, wait, word, now)
						      : wait_for_window(process, wait, word, now);
	action.ring |= asks;
	wait->step_ns = action.ns;
	return action;
}

// Returns whether this launch begins a new request (a burst of work of a vGPU of the latency class). It does if nothing
// is in flight. It also does if the estimated end of the work in flight is long past, because then the real end was
// probably not reported.
static bool begins_request(uint32_t word, uint64_t eta, uint64_t now)
{
	return turn_word_is(word, TURN_ANNOUNCE) && (!eta || (now > eta && now - eta > TURN_QUIET_NS));
}

bool turn_count_launches(struct turn_process *process, unsigned int launches, uint64_t estimate_ns, uint64_t now)
{
	struct turn_slot *slot = process->slot;
	uint32_t word = LOAD(process->page->word);
	uint64_t eta = LOAD(slot->eta_ns), sum;
	// `urgent` may still be set from an earlier request that the arbiter has ended, after TURN_QUIET_NS without
	// work and launches. Ring for the new request in this case, too. If `eta` is not 0 although a request begins,
	// the time `eta` was more than TURN_QUIET_NS ago.
	bool is_stale = eta || now - LOAD(slot->idle_ns) > TURN_QUIET_NS;
	bool ring = begins_request(word, eta, now) && (!atomic_exchange(&slot->urgent, 1) || is_stale);

	if (turn_word_number(word) != LOAD(slot->turn)) {
		STORE(slot->began_ns, now);
		STORE(slot->turn, turn_word_number(word));
	}
	do {
		sum = (eta > now ? eta : now) + estimate_ns;
	} while (!atomic_compare_exchange_weak_explicit(&slot->eta_ns, &eta, sum, memory_order_release,
							memory_order_acquire));
	// The increments are not atomic. If threads launch at the same time, a count may be lost, but the arbiter still
	// sees that the count has changed.
	STORE(slot->gpu_ns, atomic_load_explicit(&slot->gpu_ns, memory_order_relaxed) + estimate_ns);
	STORE(slot->launches, atomic_load_explicit(&slot->launches, memory_order_relaxed) + launches);
	return ring;
}

void turn_count_copy(struct turn_process *process, enum turn_copy copy, uint64_t bytes)
{
	struct turn_copy_count *count = &process->page->copies[copy];

	atomic_fetch_add_explicit(&count->count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&count->bytes, bytes, memory_order_relaxed);
}

// Returns whether a process with a thread at the gate contends for the device just as before its work ended. It does
// during a pause (TURN_PAUSED). Before the end of its turn, it does if the caller is the thread at the gate, because
// that thread launches now. If the caller is another thread, the thread at the gate may sleep on until the estimated
// end of the work. A vGPU without an end of its turn may run side by side with others, and the arbiter compares its
// pace with theirs.
static bool still_contends(const struct turn_page *page, uint32_t word, bool at_gate, uint64_t now)
{
	uint64_t until = LOAD(page->until_ns);

	return is_paused(word) || (at_gate && turn_word_state(word) == TURN_HELD && until != UINT64_MAX && now < until);
}

static bool report_flight(struct turn_process *process, uint64_t left_ns, bool at_gate, uint64_t now)
{
	struct turn_slot *slot = process->slot;

	if (left_ns) {
		STORE(slot->eta_ns, now + left_ns);
		return false;
	}
	// If a thread waits for the window, it will launch more work of the same request, so the request has not ended.
	bool ended = LOAD(slot->eta_ns) != 0, request = !LOAD(slot->waiting) && atomic_exchange(&slot->urgent, 0);
	if (ended) {
		STORE(slot->idle_ns, now);
		atomic_store(&slot->eta_ns, 0);
	}
	uint32_t word = atomic_load(&process->page->word); // read the word after eta_ns was written: see page.h
	bool wanted = turn_word_state(word) == TURN_CLOSED || turn_word_is(word, TURN_WANTED);
	bool contends = LOAD(slot->waiting) && still_contends(process->page, word, at_gate, now);
	return request || (ended && wanted && !contends);
}

bool turn_report_flight(struct turn_process *process, uint64_t left_ns, uint64_t now)
{
	return report_flight(process, left_ns, false, now);
}

bool turn_report_flight_at_gate(struct turn_process *process, uint64_t left_ns, uint64_t now)
{
	return report_flight(process, left_ns, true, now);
}

void turn_watch_begin(struct turn_process *process)
{
	atomic_fetch_add(&process->slot->watching, 1);
}

void turn_watch_end(struct turn_process *process)
{
	atomic_fetch_sub(&process->slot->watching, 1);
}
