// The arbiter of one device: which vGPU may launch, for how long, and what each is charged. A state machine without
// clock, thread or file; it allocates only in turn_create(). Every call takes the present time. One thread at a time.
//
// The thread of the daemon, for one device:
//	read the bells;
//	for each vGPU turn_page_read();
//	turn_decide();
//	for each vGPU turn_page_write(): FUTEX_WAKE where it says TURN_WRITTEN_WAKE; begin again if it says
//		TURN_WRITTEN_LOOK and turn_page_read() finds other work in flight;
//	if `poll`: look again at once; else futex_waitv on the bells, until `next_ns`.
// Before turn_decide() it calls turn_join(), turn_leave() and turn_set() for changes from the daemon's main thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "turn/page.h"

enum { TURN_VGPUS = 127 }; // of one device; futex_waitv waits for that many bells and one word of the arbiter's own

enum turn_mode {
	TURN_MODE_TIME, // every process has its own context on the device, and changing between them takes time
	TURN_MODE_MPS,	// all processes share one context
};

// The constants of the policy. turn_rules() returns those of a mode; times are nanoseconds.
struct turn_rules {
	// The length of turns.
	uint64_t quantum_ns;	   // mean turn of a contender
	double handover_part;	   // a longer one if a handover takes more than this part of it,
	uint64_t round_ns;	   // but a turn of every contender takes no longer than this,
	uint64_t quantum_least_ns; // as long as the mean turn is not shorter than this
	uint64_t turn_least_ns;	   // the shortest turn of a small share
	// The time that a turn is not charged.
	uint64_t switch_ns; // a context switch of the device
	uint64_t wake_ns;   // from the grant to the first launch, at most
	// The end of turns.
	uint64_t look_ns;	    // shortest time between two looks at the holder's work while others wait
	uint64_t grace_ns;	    // a holder that is idle for so long loses its turn, if another vGPU waits;
	uint64_t grace_most_ns;	    // up to so long if pauses of its host are so short
	uint64_t launch_ns;	    // likewise without any launch
	uint64_t return_ns;	    // a vGPU that was absent ends the turn of another one after so long,
	uint64_t return_lag_ns;	    // if it is behind by so much virtual time
	uint64_t away_ns;	    // a vGPU without work and waiting threads for so long is absent
	uint64_t patience_ns;	    // the longest wait for work in flight at the end of a turn
	uint64_t patience_least_ns; // beyond its estimate
	uint64_t margin_ns;	    // error of the estimate of work that no thread watches
	uint64_t spin_ns;	    // the next vGPU's threads spin for so long before the expected end of a drain
	// Work in flight.
	uint64_t window_ns, urgent_window_ns, idle_window_ns; // batch; beside an active latency vGPU; in idle time
	// Virtual time.
	uint64_t credit_ns; // a vGPU that was absent is behind the others by no more of its own time
	uint64_t debt_ns;   // a vGPU is ahead of the others by no more virtual time
	// Activity.
	uint64_t active_ns; // a vGPU is active for so long after its last work or wait
	uint64_t idle_ns;   // vGPUs that get idle time only wait until the others were idle for so long
	// Latency class.
	uint64_t urgent_delay_ns; // from the announcement of a request until batch vGPUs stop launching
	uint64_t quiet_ns;	  // a request ends after so long without work and launches
	uint64_t budget_ns;	  // the budget is the vGPU's share of this
	double unshared_budget;	  // the share of a latency vGPU that has none
	// Limits.
	uint64_t limit_ns; // the allowance is the vGPU's share of this, at most `quantum_ns`
	// Side by side.
	bool may_be_beside;	  // vGPUs run side by side
	double beside_rate;	  // if each launches at least at this part of its rate in turns,
	double beside_gain;	  // or, if that is not known, all together do so many times what they do in turns,
	double beside_rest;	  // or less than this part of it, because they want no more;
	uint64_t beside_trial_ns; // looked at after so long;
	uint64_t beside_ns;	  // after so long they take turns once and are measured again
	uint64_t measure_ns;	  // the shortest turn that is measured
};
void turn_rules(enum turn_mode mode, struct turn_rules *ret_rules);

// The terms of one vGPU.
struct turn_terms {
	unsigned int share; // percent, 1 to 100; 0: none
	bool is_limit;	    // never more than the share, even on an idle device
	bool is_latency;    // its requests start at once while they fit its share
	bool is_exempt;	    // its gate stays open: it is being checkpointed
	bool is_mps;	    // its programs are clients of MPS; the creator of the arbiter gives it the mode
};

// What the processes of one vGPU report; turn_page_read() fills it. Nothing of it is trusted.
struct turn_facts {
	uint64_t eta_ns;	// when the work in flight ends, by estimate; 0: nothing is in flight
	uint64_t began_ns;	// time of the first launch in the present turn; 0: no launch yet
	uint64_t idle_ns;	// when work in flight last ended
	uint64_t alive_ns;	// when a thread at the gate last read the word
	uint64_t launches;	// changes with every launch
	uint64_t gpu_ns;	// grows by the estimate of every launch
	unsigned int waiting;	// processes with threads at the gate
	unsigned int in_flight; // processes with work in flight
	bool is_urgent;		// a request is in progress
	bool is_stopped;	// a process is stopped
};

#define TURN_REASONS(X)                                                          \
	X(NONE, "the share is being held")                                       \
	X(OFF, "nothing to enforce on this device")                              \
	X(ALONE, "no other vGPU is active")                                      \
	X(BESIDE, "runs beside the others: the device has time for all of them") \
	X(UNSHARED, "no share is left: idle time only")                          \
	X(LIMITED, "at its limit")                                               \
	X(BUDGET, "over its latency budget: treated as batch")                   \
	X(SILENT, "launched nothing in its last turn")                           \
	X(EXEMPT, "a checkpoint is being taken: its gate is open")               \
	X(STOPPED, "a process is stopped")                                       \
	X(RESIDENT, "its kernels run on after its turns")

enum turn_reason {
#define X(name, text) TURN_REASON_##name,
	TURN_REASONS(X)
#undef X
		TURN_REASON_COUNT
};
const char *turn_reason_text(enum turn_reason reason);

// The orders for one vGPU.
struct turn_gate {
	uint32_t word;
	uint32_t window_us, patience_us;
	uint64_t until_ns, ahead_ns, turn_ns;
	enum turn_reason reason;
	uint64_t since_ns; // since when the reason holds
};

enum turn_regime {
	TURN_REGIME_OFF,    // all gates are open
	TURN_REGIME_ALONE,  // one vGPU is active; its gate is open
	TURN_REGIME_TURNS,  // one vGPU at a time
	TURN_REGIME_BESIDE, // side by side, paced
};

struct turn_orders {
	struct turn_gate gates[TURN_VGPUS];
	uint64_t next_ns; // call again at this time, or earlier if a bell rings; UINT64_MAX: when a bell rings
	bool poll;	  // the next event is close: look at the words instead of sleeping
	enum turn_regime regime;
	int holder, next;	 // vGPUs; -1: none
	enum turn_reason reason; // why shares are not being held on this device; NONE: they are
	int reason_vgpu;	 // the vGPU that causes it; -1: none
};

// Figures of one vGPU, since it joined.
struct turn_account {
	uint64_t charged_ns; // time for which it had the device; while alone: estimated GPU time
	uint64_t waited_ns;  // time for which it waited for a turn
	uint64_t turns;
	double weight;	   // its part of the device among the vGPUs active now; 0: idle time only
	double virtual_ns; // charged_ns over weight; the vGPU with the least is next
};
// Figures of the device. charged + overhead + idle = elapsed + beside, exactly.
struct turn_total {
	uint64_t elapsed_ns, charged_ns;
	uint64_t overhead_ns; // handovers
	uint64_t idle_ns;     // no vGPU had the device, or no arbiter ran
	uint64_t beside_ns;   // charged to several at once
	uint64_t handovers;
	uint64_t quantum_ns; // mean turn now
};

enum { TURN_TOO_MUCH = 1, TURN_FULL }; // results

struct turn_arbiter;
// `number`: of the first turn; it must differ from the numbers in the words that an earlier arbiter left (any clock
// will do). 0 or -ENOMEM.
int turn_create(const struct turn_rules *rules, uint64_t now, uint32_t number, struct turn_arbiter **ret_arbiter);
void turn_destroy(struct turn_arbiter *arbiter);
// Adds a vGPU, when its first process registers. 0; TURN_TOO_MUCH: the shares would exceed 100 percent; TURN_FULL:
// there are TURN_VGPUS; -EINVAL: a share above 100, or a limit without a share.
int turn_join(struct turn_arbiter *arbiter, const struct turn_terms *terms, uint64_t now, unsigned int *ret_vgpu);
// Removes a vGPU, when its last process has exited or was killed. The driver removes what it had in flight.
void turn_leave(struct turn_arbiter *arbiter, unsigned int vgpu, uint64_t now);
// Changes the terms. Returns as turn_join(); on failure nothing changes.
int turn_set(struct turn_arbiter *arbiter, unsigned int vgpu, const struct turn_terms *terms, uint64_t now);
// Decides. `facts` has TURN_VGPUS entries, by vGPU; it reads those of vGPUs that joined. The time that it takes grows
// with the square of their number. Call it after turn_join(), turn_leave() and turn_set(), at a bell, and at `next_ns`.
void turn_decide(struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now,
		 struct turn_orders *ret_orders);
void turn_read(const struct turn_arbiter *arbiter, unsigned int vgpu, struct turn_account *ret_account);
void turn_read_total(const struct turn_arbiter *arbiter, struct turn_total *ret_total);
