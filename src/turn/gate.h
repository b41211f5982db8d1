// Implements the gate in a process of a vGPU: before launches, a thread waits here until its vGPU may launch. The
// interposer calls these functions before and after launches. The functions read no clock, create no thread, take no
// lock and make no system call. The caller passes the time, and rings, sleeps and spins as they say. To ring is to add
// 1 to `bell`, the futex on which the arbiter sleeps, and to wake the arbiter. Any thread may call the functions. After
// a fork, the child starts with its own slot and struct turn_process.
//
// Before a launch, if page->word is not 0:
//	now = clock();
//	if (!turn_gate_admits(process, now)) {
//		for (turn_wait_begin(process, &wait, now);; now = clock()) {
//			action = turn_wait_look(process, &wait, now);
//			if (action.ring) add 1 to page->bell and FUTEX_WAKE it;
//			if (action.step == TURN_STEP_LAUNCH) break;
//			TURN_STEP_SPIN:  pause instruction;
//			TURN_STEP_SLEEP: FUTEX_WAIT(page->word, action.word, action.ns);
//			TURN_STEP_POLL:  the same, but spin if action.ns is shorter than a sleep takes; then query the
//				last mark of each stream, which tells how much work is left, and report that:
//				if (turn_report_flight_at_gate(process, left, now)) ring;
//		}
//		turn_wait_end(process);
//	}
//	if (turn_count_launches(process, 1, turn_estimate(...), now)) ring;
//
// Around a driver call that waits for the GPU: turn_watch_begin(process); call; turn_watch_end(process). If the
// call proves that no work of the process is in flight: if (turn_report_flight(process, 0, now)) ring.
#pragma once
#include "turn/page.h"

// The state of this process, which other processes do not see.
struct turn_process {
	struct turn_page *page;
	struct turn_slot *slot;
	_Atomic uint64_t open_ns; // the gate is open until this time, because no arbiter runs
	_Atomic uint64_t last_ns; // time of the last sign of life of an arbiter that stopped; 0: no arbiter has stopped
};

// The state of a thread that waits at the gate.
struct turn_wait {
	uint64_t began_ns;  // when the thread came to the gate
	uint64_t awake_ns;  // the thread spins until then
	uint64_t beat_ns;   // time of the arbiter's last sign of life (beat_ns) that the thread saw
	uint64_t looked_ns; // when the thread last looked at the gate
	uint64_t step_ns;   // how long the thread should sleep or spin after it last looked
	uint64_t quiet_ns;  // how long the thread has waited without a beat of the arbiter
	// Number of the turn for which the thread last woke the arbiter, plus 1; 0: the thread has not woken it.
	uint32_t rang;
};

enum turn_step {
	TURN_STEP_LAUNCH, // the gate is open
	TURN_STEP_SPIN,	  // look again at once
	TURN_STEP_SLEEP,  // sleep with FUTEX_WAIT while page->word is `word`, for at most `ns`
	TURN_STEP_POLL,	  // like TURN_STEP_SLEEP, but then query whether work of this process has ended
};
struct turn_action {
	enum turn_step step;
	bool ring;
	uint32_t word;
	uint64_t ns;
};

// Returns how many nanoseconds of work may be in flight: half of the time from `now` until `ahead_ns`, but at least the
// window. While 2 ms pass, the first of the two limits shrinks by 1 ms. Work that takes twice as long as estimated also
// shrinks by 1 ms of estimated time in 2 ms, so it stays below the limit.
static inline uint64_t turn_window(uint32_t window_us, uint64_t ahead_ns, uint64_t now)
{
	uint64_t window = window_us * 1000ull, ahead = ahead_ns > now ? (ahead_ns - now) / 2 : 0;

	return ahead > window ? ahead : window;
}
// Returns whether a launch may go to the driver at `now` while the work in flight ends at `eta_ns` (0: nothing is in
// flight). The last launch of a turn may start before the turn's end and end after it.
static inline bool turn_admits(uint32_t word, uint64_t window_ns, uint64_t until_ns, uint64_t now, uint64_t eta_ns)
{
	uint64_t start = eta_ns > now ? eta_ns : now;

	if (turn_word_state(word) == TURN_CLOSED)
		return false;
	if (turn_word_state(word) != TURN_HELD)
		return true;
	if (turn_word_is(word, TURN_WANTED) && start >= until_ns)
		return false;
	return eta_ns <= now || eta_ns - now < window_ns;
}
static inline bool turn_gate_admits(const struct turn_process *process, uint64_t now)
{
	const struct turn_page *page = process->page;
	uint32_t word = atomic_load_explicit(&page->word, memory_order_acquire);

	return turn_admits(word,
			   turn_window(atomic_load_explicit(&page->window_us, memory_order_relaxed),
				       atomic_load_explicit(&page->ahead_ns, memory_order_relaxed), now),
			   atomic_load_explicit(&page->until_ns, memory_order_relaxed), now,
			   atomic_load_explicit(&process->slot->eta_ns, memory_order_relaxed)) ||
	       now < atomic_load_explicit(&process->open_ns, memory_order_relaxed);
}

void turn_wait_begin(struct turn_process *process, struct turn_wait *ret_wait, uint64_t now);
// Returns what the thread does next. A launch waits until less work is in flight than the window allows, but at most
// `patience_us` of the page: the work in flight may itself wait for this launch. A thread that waited for TURN_BEAT_NS
// without a beat of the arbiter concludes that no arbiter runs. The gates of the process are then open for 1 s. If a
// sleep took longer than it was meant to, only the intended time counts, because the process may have been stopped
// meanwhile.
struct turn_action turn_wait_look(struct turn_process *process, struct turn_wait *wait, uint64_t now);
void turn_wait_end(struct turn_process *process);

// Counts `launches` launches, at least 1, which together take `estimate_ns`. Call it before the driver call. Returns
// true if the caller must ring the bell.
bool turn_count_launches(struct turn_process *process, unsigned int launches, uint64_t estimate_ns, uint64_t now);
// Returns whether the daemon records a trace. While it does, the caller reports each copy with turn_count_copy().
static inline bool turn_counts_copies(const struct turn_process *process)
{
	return atomic_load_explicit(&process->page->traced, memory_order_relaxed);
}
void turn_count_copy(struct turn_process *process, enum turn_copy copy, uint64_t bytes);
// Corrects the estimate of the work in flight. Call it after a mark in a stream was reached, or after a driver call
// that waited for the GPU. `left_ns`: the work still in flight; 0: nothing is. Returns true if the caller must ring the
// bell. Launches that other threads make at the same time may be missing in the estimate until the next report.
bool turn_report_flight(struct turn_process *process, uint64_t left_ns, uint64_t now);
// The same, for a thread that waits at the gate and calls turn_wait_look() next. If nothing is in flight, it launches
// then, so it need not ring before.
bool turn_report_flight_at_gate(struct turn_process *process, uint64_t left_ns, uint64_t now);
// Call these functions before and after a driver call in which this thread waits for work of this process. In between,
// the arbiter expects the process to report the end of the work. It does not assume the end when the estimate is over.
void turn_watch_begin(struct turn_process *process);
void turn_watch_end(struct turn_process *process);
