// The inside of the arbiter. Only this room includes it.
#pragma once
#include "turn/turn.h"

struct turn_vgpu {
	struct turn_terms terms;
	bool joined;
	double weight;	     // part of the device among the active vGPUs; 0: idle time only
	double virtual_time; // nanoseconds charged over weight
	struct turn_facts facts;

	bool waits;	       // a thread is at the gate for a turn
	bool contends;	       // it waits, has work in flight, or has a request in progress
	bool eligible;	       // it may be given a turn
	bool returned;	       // it was absent, came back, and has waited since
	bool lasting;	       // the work in flight outlasted the patience at the end of a turn
	uint64_t launched_ns;  // when the arbiter last saw a new launch
	uint64_t active_ns;    // when it last contended; 0: never
	uint64_t present_ns;   // when it was last eligible, or used its turn
	uint64_t silent_ns;    // when its turn ended without a launch: no turn before it shows life; 0: none did
	unsigned int silences; // such turns in a row; each early launch takes one off
	uint64_t left_ns;      // since when it was idle when it lost its turn for that; 0: it has come back since
	uint64_t grace_ns;     // the rule's, or longer: it came back soon after it had lost its turn
	unsigned int contexts; // that it has on the device since the last decision
	uint32_t number;       // of its last turn

	uint64_t request_ns; // latency class: when the present request was announced; 0: none, or over its budget
	double budget;	     // latency class: urgent time left, nanoseconds
	bool over_budget;
	double allowance; // of a limit: time left, nanoseconds
	bool limited;	  // waits for its allowance

	bool paced;		  // side by side: it is ahead of the others and waits for them
	bool is_measured;
	double rate;		  // launches per nanosecond in its last turn
	uint64_t beside_ns;	  // side by side: time for which its gate was open,
	uint64_t beside_launches; // and its launches in it

	enum turn_reason reason;
	uint64_t reason_ns;
	uint64_t charged_ns, waited_ns, turns;
};

struct turn_arbiter {
	struct turn_rules rules;
	struct turn_vgpu vgpus[TURN_VGPUS];
	int touched;	  // entries of `vgpus` from here on were never used
	int contenders;
	bool wanted; // a vGPU other than the holder waits, also one that gets idle time only
	uint64_t last_ns; // the accounts are complete until here
	double floor[2];  // least virtual time among contenders, which never falls: [0] with a weight, [1] without
	enum turn_regime regime;
	struct turn_total total;

	int holder;   // of the turn; -1: none
	bool drains;  // the holder's gate is closed and its work is ending
	int resident; // the vGPU whose context the device had last; -1: unknown
	uint32_t number;
	uint64_t turn_ns;    // granted
	uint64_t drained_ns; // when the arbiter stops waiting for the drain
	uint64_t wall_ns;    // length of the turn, without pauses
	uint64_t part_ns;    // the holder's part of the device in the turn,
	uint64_t free_ns;    // the handover in it, which is not charged,
	uint64_t paid_ns;    // and what was charged
	bool launched;	     // the holder launched in this turn
	uint64_t begin_ns;   // from the grant to the first launch
	bool crowded;	     // other vGPUs were on the device during the turn
	uint64_t first_launches;
	double handover_ns; // mean time from a grant to the first work

	bool paused;	     // batch gates are closed for a request
	uint64_t urgent_ns;  // the first of the requests in progress; 0: none
	uint64_t latency_ns; // when a request was last in progress; 0: never
	uint64_t shared_ns;  // when a vGPU with a weight last contended; 0: never

	// Side by side: when it began, the earliest next time, and the wait after a failed attempt.
	uint64_t beside_since_ns, beside_after_ns, beside_backoff_ns;
};

// It gets idle time only.
static inline bool turn_is_idle_class(const struct turn_vgpu *vgpu)
{
	return vgpu->weight <= 0;
}
// It announces its requests and is within its budget, so its gate is open.
static inline bool turn_is_urgent_class(const struct turn_vgpu *vgpu)
{
	return vgpu->terms.is_latency && !vgpu->over_budget && !vgpu->limited;
}
// It worked or waited recently.
static inline bool turn_is_active(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu, uint64_t now)
{
	return vgpu->active_ns && now - vgpu->active_ns < arbiter->rules.active_ns;
}
static inline double turn_pace(const struct turn_vgpu *vgpu) // nanoseconds that are charged for one of virtual time
{
	return turn_is_idle_class(vgpu) ? 1 : vgpu->weight;
}
static inline uint64_t turn_clamp(uint64_t value, uint64_t least, uint64_t most)
{
	return value < least ? least : value > most ? most : value;
}
static inline uint64_t turn_later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}
static inline uint64_t turn_earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

// ---- account.c
// Charges the time since the last decision to the vGPUs that had the device.
void turn_charge_time(struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now);
// Computes the weights of all vGPUs from their shares.
void turn_weigh(struct turn_arbiter *arbiter, uint64_t now);
double turn_budget_share(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu);
double turn_limit_depth(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu);

// ---- watch.c
// Takes over the facts: which vGPUs wait, contend, came back, have a request.
void turn_watch(struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now);

// ---- choose.c
enum turn_candidates { TURN_ALL, TURN_RETURNED }; // RETURNED: only vGPUs that were absent and came back
// Returns the eligible vGPU with the least virtual time, other than the holder; -1: none.
int turn_choose(const struct turn_arbiter *arbiter, enum turn_candidates candidates);
uint64_t turn_mean_quantum(const struct turn_arbiter *arbiter);
// Returns when the holder's turn ends, if nothing else changes; UINT64_MAX: no vGPU waits for it.
uint64_t turn_until(const struct turn_arbiter *arbiter, uint64_t now);

// ---- change.c
// Ends the turn, waits for its drain, grants the next one.
void turn_change(struct turn_arbiter *arbiter, uint64_t now);
// Returns when an idle holder loses its turn; UINT64_MAX: it is not idle.
uint64_t turn_idle_end(const struct turn_arbiter *arbiter);
// Returns how long a turn of the vGPU lasts without a launch.
uint64_t turn_silence(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu);
void turn_finish(struct turn_arbiter *arbiter);

// ---- beside.c
// Begins and ends the regime side by side, and finds the vGPUs that are ahead.
void turn_beside(struct turn_arbiter *arbiter, uint64_t now);
bool turn_is_beside(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu); // it may launch in that regime
uint64_t turn_beside_next(const struct turn_arbiter *arbiter, uint64_t now);

// ---- orders.c
void turn_order(struct turn_arbiter *arbiter, uint64_t now, struct turn_orders *ret_orders);
