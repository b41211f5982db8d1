// Declares the arbiter's internal state and the functions that its files share. Only files of this directory include
// it.
#pragma once
#include "turn/turn.h"

struct turn_vgpu {
	struct turn_terms terms;
	bool joined;
	double weight;	     // the vGPU's part of the device among the active vGPUs; 0: it gets idle time only
	double virtual_time; // nanoseconds charged to the vGPU, divided by its weight
	struct turn_facts facts;

	bool waits;    // a thread of the vGPU waits at the gate for a turn
	bool contends; // the vGPU waits, has work in flight, or has a request in progress
	bool eligible; // the vGPU may be given a turn
	bool returned; // the vGPU was absent, came back, and has waited since
	// True: at the end of a turn, the arbiter stopped waiting for the vGPU's work in flight, which has still not
	// ended.
	bool lasting;
	uint64_t launched_ns; // when the arbiter last saw a new launch of the vGPU
	uint64_t active_ns;   // when the vGPU last contended; 0: never
	uint64_t present_ns;  // when the vGPU was last eligible, or had the turn and used it
	bool hides_end;	      // the vGPU has the turn, and its last work ended without a report of its process
	// When a turn or a request of the vGPU last ended because its work had ended by estimate, without a report of
	// its process, or because the arbiter found the end of the work late. At first, this is the time at which the
	// vGPU joined.
	uint64_t unreported_ns;
	// When a turn of the vGPU ended because the vGPU launched nothing. It is 0 again as soon as the vGPU launches,
	// or one of its threads comes to the gate.
	uint64_t silent_ns;
	// Number of consecutive turns without a launch; a launch early in a turn reduces it by one.
	unsigned int silences;
	// If the vGPU lost its turn because it was idle: the time at which it became idle. 0: it has launched since
	// then.
	uint64_t left_ns;
	// How long the vGPU may be idle before it loses its turn; at least `grace_ns` of the rules.
	uint64_t grace_ns;
	unsigned int contexts; // how many of the vGPU's contexts were on the device since the last decision
	uint32_t number;       // the number of the vGPU's last turn

	// Only for a vGPU of the latency class: when its present request was announced. 0: there is no request, or the
	// budget is used up.
	uint64_t request_ns;
	double budget; // latency class: how long its requests may still precede other vGPUs, in nanoseconds
	bool over_budget;
	double allowance; // how long the vGPU may still run, in nanoseconds, if its share is a limit
	bool limited;	  // the share is a limit and the allowance is used up, so the vGPU waits

	bool paced; // side by side: the vGPU is ahead, so its gate is closed until the others catch up
	bool is_measured;
	double rate;		  // launches per nanosecond in the vGPU's last turn
	uint64_t beside_ns;	  // side by side: the time for which the vGPU had work and its gate was open
	uint64_t beside_launches; // side by side: how many launches the vGPU made in `beside_ns`

	enum turn_reason reason;
	uint64_t reason_ns;
	uint64_t charged_ns, waited_ns, turns;
};

struct turn_arbiter {
	struct turn_rules rules;
	struct turn_vgpu vgpus[TURN_VGPUS];
	int touched; // entries of `vgpus` from this index on were never used
	int contenders;
	bool counts_all;  // gates count launches also while no share is enforced (turn_count_all())
	bool wanted;	  // a vGPU other than the holder waits, possibly one that gets idle time only
	uint64_t last_ns; // the time up to which the vGPUs were charged
	// The least virtual time of the contenders, which never decreases: [0] of those with a weight, [1] of the
	// others.
	double floor[2];
	enum turn_regime regime;
	struct turn_total total;

	int holder;   // index of the vGPU that has the turn; -1: no vGPU has it
	bool drains;  // true: the holder's gate is closed, and its work in flight is ending
	int resident; // the vGPU whose context the device had last; -1: unknown
	uint32_t number;
	uint64_t turn_ns;    // when the turn was granted
	uint64_t closed_ns;  // when the holder's gate was closed
	uint64_t drained_ns; // when the arbiter stops waiting for the drain
	uint64_t wall_ns;    // how long the turn has lasted so far, without pauses for requests of the latency class
	uint64_t part_ns;    // for how much of the turn the holder had the device
	uint64_t free_ns;    // how much of `part_ns` may count as handover, which is not charged
	uint64_t paid_ns;    // how much of `part_ns` was charged
	bool launched;	     // the holder launched in this turn
	uint64_t begin_ns;   // the time from the grant to the first launch
	bool crowded;	     // true: other vGPUs were on the device during the turn
	uint64_t first_launches;
	double handover_ns; // the mean time from a grant to the first work

	bool paused;	     // the gates of batch vGPUs are closed for a request of the latency class
	uint64_t urgent_ns;  // when the earliest request in progress began; 0: no request
	uint64_t latency_ns; // when a request was last in progress; 0: never
	uint64_t shared_ns;  // when a vGPU with a weight last contended; 0: never

	// Side by side. `beside_since_ns`: when the vGPUs began to run side by side. `beside_after_ns`: the earliest
	// time of the next attempt. `beside_backoff_ns`: how long to wait before the next attempt, after attempts that
	// gained nothing.
	uint64_t beside_since_ns, beside_after_ns, beside_backoff_ns;
};

// Returns whether the vGPU has no weight, and gets idle time only.
static inline bool turn_is_idle_class(const struct turn_vgpu *vgpu)
{
	return vgpu->weight <= 0;
}
// Returns whether the vGPU is of the latency class and within its budget. The gate of such a vGPU stays open.
static inline bool turn_is_urgent_class(const struct turn_vgpu *vgpu)
{
	return vgpu->terms.is_latency && !vgpu->over_budget && !vgpu->limited;
}
// Returns whether the vGPU worked or waited recently.
static inline bool turn_is_active(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu, uint64_t now)
{
	return vgpu->active_ns && now - vgpu->active_ns < arbiter->rules.active_ns;
}
// Returns the ratio of charged time to virtual time: the vGPU's weight, or 1 if the vGPU gets idle time only.
static inline double turn_pace(const struct turn_vgpu *vgpu)
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
// Returns the allowance with which a vGPU that had used it up gets turns again.
double turn_limit_again(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu);

// ---- watch.c
// Derives from the facts which vGPUs wait, contend, came back, or have a request.
void turn_watch(struct turn_arbiter *arbiter, const struct turn_facts *facts, uint64_t now);

// ---- choose.c
enum turn_candidates { TURN_ALL, TURN_RETURNED }; // TURN_RETURNED: only vGPUs that came back after an absence
// Returns the eligible vGPU with the least virtual time, other than the holder; -1: none.
int turn_choose(const struct turn_arbiter *arbiter, enum turn_candidates candidates);
uint64_t turn_mean_quantum(const struct turn_arbiter *arbiter);
// Returns the time at which the holder's turn ends if nothing else changes; UINT64_MAX: no other vGPU waits for the
// turn.
uint64_t turn_until(const struct turn_arbiter *arbiter, uint64_t now);

// ---- change.c
// Ends the turn, waits for its work in flight to end, and grants the next turn.
void turn_change(struct turn_arbiter *arbiter, uint64_t now);
// Returns the time at which the holder loses its turn because it is idle; UINT64_MAX: the holder is not idle.
uint64_t turn_idle_end(const struct turn_arbiter *arbiter);
// Returns how long a turn of the vGPU lasts if the vGPU launches nothing.
uint64_t turn_silence(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu);
void turn_finish(struct turn_arbiter *arbiter);

// ---- beside.c
// Begins or ends running side by side, and closes the gates of vGPUs that are ahead.
void turn_beside(struct turn_arbiter *arbiter, uint64_t now);
// Returns whether the vGPU may launch now, side by side with others.
bool turn_is_beside(const struct turn_arbiter *arbiter, const struct turn_vgpu *vgpu);
uint64_t turn_beside_next(const struct turn_arbiter *arbiter, uint64_t now);

// ---- orders.c
void turn_order(struct turn_arbiter *arbiter, uint64_t now, struct turn_orders *ret_orders);
