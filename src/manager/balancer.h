// The balancer's internal interface. Its decisions depend only on a snapshot of the loads and on its memory of earlier
// rounds. Only balancer_source.c reads loads and acts on managers.
#pragma once
#include "base/status.h"
#include "virgate/balancer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BALANCER_NAME = 64, BALANCER_WHY = 256 };

// Identifies a virtual GPU. A manager may reuse an id, but never a serial.
struct balancer_key {
	unsigned manager; // in the order in which they were added, from 0
	int id;
	uint64_t serial;
};
static inline bool balancer_same(struct balancer_key a, struct balancer_key b)
{
	return a.manager == b.manager && a.id == b.id && a.serial == b.serial;
}

// The load of one virtual GPU at one time.
struct balancer_load {
	struct balancer_key key;
	char name[BALANCER_NAME];
	enum vg_virtual_gpu_status status;
	bool takes_work; // false: it is paused or in error
	double share;	 // compute share of its device
	// compute units of the virtual GPU and of its device; 0: its share is not counted in units
	unsigned units, max_units;
	int priority;		 // the highest of its waiting and running work
	unsigned window;	 // number of executions that it can run at once
	size_t waiting, running; // bound work: its arguments contain addresses of this virtual GPU
	size_t unbound;		 // work in the balancer's queue for it, which can still move to another
	bool utilization_known;
	double utilization; // utilization of its share, 0 to 1
	bool gave, took;    // within a plan: work left or came in this round
};
static inline double balancer_executions(const struct balancer_load *load)
{
	return (double)(load->waiting + load->unbound + load->running);
}
// Returns how long new work would wait, in executions of a whole device. Shares below 0.001 count as 0.001.
static inline double balancer_drain(const struct balancer_load *load)
{
	return balancer_executions(load) / (load->share > 0.001 ? load->share : 0.001);
}

// What the balancer remembers about a virtual GPU between rounds.
struct balancer_mark {
	struct balancer_key key;
	double share;	     // its own, without loans
	int scaled;	     // units added to its own
	unsigned pressed;    // number of consecutive rounds with waiting work
	unsigned calm;	     // number of consecutive rounds without waiting work
	uint64_t gave, took; // the last round in which work or its own share left it or came to it; 0: never
	unsigned needed;     // number of times that it needed a loan back
	double credit;	     // for the weighted strategy
};
struct balancer_loan {
	struct balancer_key from, to;
	double share;
};
struct balancer_memory {
	struct balancer_mark *marks; // in the order of the loads of the latest observation
	size_t count;
	struct balancer_loan *loans;
	size_t loan_count, loan_capacity;
	uint64_t round;
	struct balancer_key last; // the latest choice of round robin
};
// Makes the marks correspond to the loads, in their order. NO_MEMORY: nothing has changed.
enum vg_status balancer_update_marks(struct balancer_memory *memory, const struct balancer_load *loads, size_t count);
// Does the same, and begins a round.
enum vg_status balancer_begin_round(struct balancer_memory *memory, const struct balancer_load *loads, size_t count);
void balancer_memory_finish(struct balancer_memory *memory);
struct balancer_mark *balancer_mark(const struct balancer_memory *memory, struct balancer_key key);

enum {
	BALANCER_HOLD = 5,     // rounds for which a virtual GPU that received gives nothing, and the reverse
	BALANCER_PATIENCE = 2, // consecutive rounds with waiting work before shares, units or quanta change
	BALANCER_CALM = 3      // consecutive rounds without waiting work before they change back
};
// Returns whether an action of `round` is too recent to be undone. The period doubles with each time that such an
// action proved `wrong`.
static inline bool balancer_still(const struct balancer_memory *memory, uint64_t round, unsigned wrong)
{
	return round && memory->round - round < (uint64_t)BALANCER_HOLD << (wrong < 8 ? wrong : 8);
}

struct balancer_rules {
	double threshold;
	unsigned forbidden; // bits of enum vg_balancing_action
};
struct balancer_decision {
	enum vg_balancing_action action;
	size_t from, to;   // indexes of loads; equal if only one virtual GPU is concerned
	size_t executions; // MIGRATE: number to move; PREEMPT: 1
	double share;	   // ADJUST_SHARE: the share that moves
	int units;	   // SCALE_UNITS: the change
	bool returns;	   // a loan or added units go back
	bool needed;	   // because the lender needs them
	char why[BALANCER_WHY];
};
// Decides what to do about the loads, after balancer_begin_round() of the same loads. Changes neither. Returns at most
// `capacity` decisions, in the order in which they are to be executed.
size_t balancer_decide(const struct balancer_rules *rules, const struct balancer_load *loads, size_t count,
		       const struct balancer_memory *memory, struct balancer_decision *decisions, size_t capacity);
// Records that a decision was executed.
void balancer_commit(struct balancer_memory *memory, const struct balancer_load *loads,
		     const struct balancer_decision *decision);

// Parts of balancer_decide(). `loads` is a copy of the plan, with the effects of earlier decisions applied.
struct balancer_plan {
	const struct balancer_rules *rules;
	struct balancer_load *loads;
	size_t count;
	const struct balancer_memory *memory;
	struct balancer_decision *decisions;
	size_t decided, capacity;
};
void balancer_plan_migrations(struct balancer_plan *plan);
void balancer_plan_shares(struct balancer_plan *plan);
void balancer_plan_units(struct balancer_plan *plan);
void balancer_plan_preemption(struct balancer_plan *plan);
// Returns NULL if the plan is full.
__attribute__((format(printf, 5, 6))) struct balancer_decision *balancer_plan_add(struct balancer_plan *plan,
										  enum vg_balancing_action action,
										  size_t from, size_t to,
										  const char *why, ...);
static inline bool balancer_allows(const struct balancer_plan *plan, enum vg_balancing_action action)
{
	return !(plan->rules->forbidden & action);
}

// Chooses the virtual GPU for new work, and records the choice. Returns -1 if none accepts work.
long balancer_choose(enum vg_balancing strategy, const struct balancer_load *loads, size_t count,
		     struct balancer_memory *memory);
