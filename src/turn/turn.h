// Decides for one device which vGPU may launch and for how long, and what time each vGPU is charged: the arbiter. It is
// a state machine that uses no clock, thread or file, and allocates only in turn_create(). Every call takes the present
// time. Only one thread at a time may call these functions.
//
// The holder is the vGPU that has the turn. A contender works or waits for a turn. A drain is the wait, at the end of a
// turn, until the holder's work in flight has ended. A handover is the time from the grant of a turn to its first work,
// with the context switch. Virtual time is charged time divided by the vGPU's weight (its part of the device).
//
// A vGPU of the latency class does not wait for turns while its budget lasts. Its request is a burst of work, for which
// the other vGPUs stop launching. A batch vGPU is one that is not of the latency class.
//
// The daemon's thread for a device repeats:
//	read the bells;
//	for each vGPU turn_page_read();
//	turn_decide();
//	for each vGPU turn_page_write(): FUTEX_WAKE if it returns TURN_WRITTEN_WAKE; begin again if it
//		returns TURN_WRITTEN_LOOK and turn_page_read() finds other work in flight;
//	if `poll`, look again at once; else futex_waitv on the bells, until `next_ns`.
// Before turn_decide() the thread calls turn_join(), turn_leave() and turn_set() for changes from the daemon's main
// thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "turn/page.h"

// Maximum for one device: futex_waitv() takes 128 words, and the arbiter needs one for itself.
enum { TURN_VGPUS = 127 };

enum turn_mode {
	TURN_MODE_TIME, // every process has its own context on the device, and a context switch takes time
	TURN_MODE_MPS,	// all processes share one context
};

// The constants of the policy, which turn_rules() returns for a mode. Times are nanoseconds.
struct turn_rules {
	// These members determine the length of turns.
	uint64_t quantum_ns;  // the mean length of turns, unless the next members make turns longer or shorter
	double handover_part; // if a handover takes more than this part of a turn, turns get longer
	// The longest time of a round, in which every contender has one turn. With many contenders, turns get shorter,
	// so that the round is not longer.
	uint64_t round_ns;
	uint64_t quantum_least_ns; // lower limit of the mean turn, however long the round becomes
	// Lower limit of a turn that does not end early. If the vGPU's part of `round_ns` is lower, that part is the
	// limit instead.
	uint64_t turn_short_ns;
	uint64_t turn_least_ns; // lower limit of every turn
	// These members determine which part of a turn is not charged.
	uint64_t switch_ns; // the time of a context switch of the device
	uint64_t wake_ns;   // the longest uncharged time from the grant of a turn to its first launch
	// These members determine when turns end.
	// The shortest times between two checks of work in flight while other vGPUs wait. The arbiter trusts a vGPU to
	// report the end of its work if the vGPU did not stop without a report in the last `trust_ns`.
	uint64_t look_ns;	  // for a vGPU that the arbiter does not trust
	uint64_t look_trusted_ns; // for a vGPU that it trusts; in a request of the latency class: `look_ns`
	uint64_t look_request_ns; // in a request of a vGPU that it does not trust
	uint64_t trust_ns;
	uint64_t grace_ns;	// a holder that is idle for this time loses its turn, if another vGPU waits
	uint64_t grace_most_ns; // the longest grace for a program whose host pauses a little longer than `grace_ns`
	uint64_t launch_ns;	// a holder that launches nothing for this time loses its turn
	// Shortest turn of the holder if a vGPU comes back after an absence and ends the turn early.
	uint64_t return_ns;
	// A vGPU that comes back ends the turn early only if it is behind the holder by this much virtual time.
	uint64_t return_lag_ns;
	uint64_t away_ns;     // a vGPU is absent after this time without work and waiting threads
	uint64_t patience_ns; // the longest wait for work in flight at the end of a turn
	// At the end of a turn, the shortest wait after the estimated end of the work in flight.
	uint64_t patience_least_ns;
	uint64_t margin_ns; // work that no thread watches counts as ended this long after its estimated end
	uint64_t spin_ns;   // the next vGPU's threads spin for this time before the expected end of a drain
	// How much work of a vGPU may be in flight: normally; while a vGPU of the latency class is active; for a vGPU
	// that gets idle time only.
	uint64_t window_ns, urgent_window_ns, idle_window_ns;
	// A holder that may run ahead may have work in flight for half of this time plus half of the rest of its turn.
	// So near the end of the turn, its threads launch all that fits, instead of sleeping again and again until the
	// window has room. If the CPUs are busy, a sleeping thread wakes some milliseconds late, and the device would
	// be idle meanwhile.
	uint64_t ahead_ns;
	// Virtual time.
	uint64_t credit_ns; // the most time that a vGPU may catch up after an absence
	uint64_t debt_ns;   // the largest lead of a vGPU over the others, in virtual time
	// Activity.
	uint64_t active_ns; // a vGPU counts as active for this time after it last worked or waited
	uint64_t idle_ns;   // how long the other vGPUs must be idle before a vGPU gets idle time
	// Latency class.
	uint64_t urgent_delay_ns; // time from the announcement of a request until batch vGPUs stop launching
	uint64_t quiet_ns;	  // a request ends after this time without work and launches
	// The budget of a latency vGPU is the time for which its requests may still precede other vGPUs. The largest
	// budget is the vGPU's share of this time.
	uint64_t budget_ns;
	double unshared_budget; // a latency vGPU without a share counts as having this share (a fraction of 1)
	// A vGPU whose share is a limit gets no more than its share, even on an idle device. It has an allowance: the
	// time for which it may still run. The allowance shrinks while the vGPU runs, and grows at the rate of the
	// share.
	uint64_t limit_ns; // the largest allowance is the vGPU's share of this time, but at most `quantum_ns`
	// A vGPU that has used up its allowance gets turns again this long before the allowance has its largest size.
	// So it loses nothing if the arbiter wakes up late, and in the handover, which is not charged.
	uint64_t limit_early_ns;
	// Side by side.
	bool may_be_beside; // the mode allows vGPUs to run side by side (at the same time)
	// vGPUs continue side by side if each launches at least at this fraction of its launch rate in turns.
	double beside_rate;
	// A vGPU's rate side by side is unknown if the vGPU ran for too short a time to measure it. Then the arbiter
	// computes how long all launches would take in turns. The vGPUs stay side by side if that is more than this
	// many times the time for which they have run side by side.
	double beside_gain;
	// They also stay side by side if that is less than this part of that time. Then they have too little work to
	// fill the device.
	double beside_rest;
	uint64_t beside_trial_ns; // time from the start of running side by side until the first check
	uint64_t beside_ns;	  // after this time the vGPUs take turns once, and their rates are measured again
	uint64_t beside_retry_ns; // wait after the first attempt that gains nothing; doubles with each further one
	uint64_t measure_ns;	  // the shortest turn in which a rate is measured
};
void turn_rules(enum turn_mode mode, struct turn_rules *ret_rules);

// The terms of one vGPU: its settings for sharing the device.
struct turn_terms {
	unsigned int share; // the compute share in percent, 1 to 100; 0: no share
	bool is_limit;	    // the vGPU never gets more than the share, even on an idle device
	bool is_latency;    // the vGPU's requests start at once while they fit its share
	bool is_exempt;	    // the gate stays open, because the vGPU is being checkpointed
	bool is_mps;	    // the programs are clients of MPS; the arbiter's mode must match
};

// What the processes of one vGPU report, as turn_page_read() reads it. The arbiter trusts no value in it.
struct turn_facts {
	uint64_t eta_ns;	// when the work in flight ends, by estimate; 0: nothing is in flight
	uint64_t began_ns;	// time of the first launch in the present turn; 0: no launch yet
	uint64_t idle_ns;	// when the last work in flight ended
	uint64_t alive_ns;	// when a thread at the gate last read the word
	uint64_t launches;	// number of launches, as the processes have reported them
	uint64_t gpu_ns;	// sum of the estimated GPU times of all launches
	unsigned int waiting;	// number of processes with threads at the gate
	unsigned int in_flight; // number of processes with work in flight
	bool is_urgent;		// a request of the latency class is in progress
	bool is_stopped;	// at least one process is stopped
	bool is_overdue;	// work counts as ended by its estimate, because its process has not reported the end
	// Only for a job, which has several devices (turn/gang.h). Launches on one device wait at the closed gate, and
	// work on another device may wait for these launches. From this time on they are allowed. 0: no launch waits in
	// this way.
	uint64_t torn_ns;
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
	uint64_t since_ns; // since when `reason` applies
};

enum turn_regime {
	TURN_REGIME_OFF,    // all gates are open
	TURN_REGIME_ALONE,  // one vGPU is active; its gate is open
	TURN_REGIME_TURNS,  // one vGPU launches at a time
	TURN_REGIME_BESIDE, // vGPUs launch at the same time, and wait if they are ahead of the others
};

struct turn_orders {
	struct turn_gate gates[TURN_VGPUS];
	// The time of the next call of turn_decide(). If a process rings a bell, call it earlier. UINT64_MAX: call it
	// only after a bell.
	uint64_t next_ns;
	bool poll; // the next event is near: read the shared words again instead of sleeping
	enum turn_regime regime;
	int holder, next;	 // the vGPU that has the turn, and the one after it; -1: none
	enum turn_reason reason; // why the device does not keep to the shares; TURN_REASON_NONE: it keeps to them
	int reason_vgpu;	 // the vGPU that causes `reason`; -1: no vGPU, or several
};

// What a vGPU does between two decisions, for a trace.
#define TURN_PHASES(X)                                                                        \
	X(NONE, "none")	      /* the vGPU does not use the device, or no share is enforced */ \
	X(WAITS, "waits")     /* the vGPU waits for a turn */                                 \
	X(HOLDS, "holds")     /* the vGPU has the turn */                                     \
	X(ENDS, "ends")	      /* the vGPU's turn is over, and its work in flight is ending */ \
	X(PAUSED, "paused")   /* the vGPU has the turn, but makes way for a request */        \
	X(LASTS, "lasts")     /* the vGPU has no turn, but its work still runs */             \
	X(ALONE, "alone")     /* the vGPU has the device alone, without turns */              \
	X(BESIDE, "beside")   /* the vGPU runs side by side with others */                    \
	X(REQUEST, "request") /* the vGPU is of the latency class, and its request is in progress */
enum turn_phase {
#define X(name, text) TURN_PHASE_##name,
	TURN_PHASES(X)
#undef X
		TURN_PHASE_COUNT
};
const char *turn_phase_text(enum turn_phase phase);

// What one vGPU has used and waited for since it was added.
struct turn_account {
	uint64_t charged_ns; // time for which the vGPU had the device; while it is alone: estimated GPU time
	uint64_t waited_ns;  // time for which the vGPU waited for a turn
	uint64_t turns;
	double weight;	   // part of the device among the vGPUs active now; 0: idle time only
	double virtual_ns; // charged_ns divided by weight; the vGPU with the least gets the next turn
};
// The sums over the device. charged + overhead + idle = elapsed + beside, exactly.
struct turn_total {
	uint64_t elapsed_ns, charged_ns;
	// Time that no vGPU is charged: handovers, and times in which a vGPU waited and no vGPU had the device.
	uint64_t overhead_ns;
	uint64_t idle_ns;   // no vGPU had the device, or no arbiter ran
	uint64_t beside_ns; // time that was charged to more than one vGPU, counted again for each further one
	uint64_t handovers;
	uint64_t quantum_ns; // the present mean length of a turn
};

enum { TURN_TOO_MUCH = 1, TURN_FULL }; // positive results of turn_join() and turn_set()

struct turn_arbiter;
// Creates an arbiter. `number` is the number of the first turn. It must differ from the turn numbers that an earlier
// arbiter left in the shared words. `now` may come from any clock, but all calls must use the same one. Returns 0 or
// -ENOMEM.
int turn_create(const struct turn_rules *rules, uint64_t now, uint32_t number, struct turn_arbiter **ret_arbiter);
void turn_destroy(struct turn_arbiter *arbiter);
// Adds a vGPU when its first process registers. Returns 0; TURN_TOO_MUCH: the shares would exceed 100 percent;
// TURN_FULL: TURN_VGPUS were added already; -EINVAL: a share above 100, or a limit without a share.
int turn_join(struct turn_arbiter *arbiter, const struct turn_terms *terms, uint64_t now, unsigned int *ret_vgpu);
// Removes a vGPU when its last process has ended. The driver removes the process's work in flight.
void turn_leave(struct turn_arbiter *arbiter, unsigned int vgpu, uint64_t now);
// Changes the terms of a vGPU. Returns what turn_join() returns; on failure nothing changes.
int turn_set(struct turn_arbiter *arbiter, unsigned int vgpu, const struct turn_terms *terms, uint64_t now);
// Decides which gates are open. `facts` has TURN_VGPUS entries, indexed by vGPU; entries without an added vGPU are not
// read. The run time grows with the square of the number of vGPUs. Call it after turn_join(), turn_leave() and
// turn_set(), when a process wakes the arbiter, and at `next_ns`.
void turn_decide(struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now,
		 struct turn_orders *ret_orders);
void turn_read(const struct turn_arbiter *arbiter, unsigned int vgpu, struct turn_account *ret_account);
// Returns the vGPU's phase since the last decision. *ret_number is the number of its last turn.
enum turn_phase turn_read_phase(const struct turn_arbiter *arbiter, unsigned int vgpu, uint32_t *ret_number);
// With `counts`, makes all gates count launches from the next decision on, also while no share is enforced. Without
// `counts`, ends that.
void turn_count_all(struct turn_arbiter *arbiter, bool counts);
void turn_read_total(const struct turn_arbiter *arbiter, struct turn_total *ret_total);
