// Declares the parts of the balancer for this directory. The balancer runs in rounds: it reads the load of each virtual
// GPU (struct balancer_load), decides, and acts. Decisions depend only on these loads, on the rules, and on what the
// balancer remembers of earlier rounds. Only balancer_source.c reads loads from managers and acts on managers.
#pragma once
#include "base/status.h"
#include "virgate/balancer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BALANCER_NAME = 64, BALANCER_WHY = 256 };

// Identifies a virtual GPU. A manager may reuse an id, but never a serial.
struct balancer_key {
	unsigned manager; // index of the manager: managers are numbered in the order in which they were added
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
	bool takes_work; // false: the virtual GPU is paused or in error
	double share;	 // compute share of the virtual GPU, as a part of its device
	// How many compute units the virtual GPU has, and how many its device has. Both are 0 if the share is not a
	// whole number of compute units, or if the manager does not use compute shares.
	unsigned units, max_units;
	int priority; // highest priority of the waiting and running work
	// At least this many executions may be bound to (submitted to the compute unit of) this virtual GPU. This is
	// twice as many as it can run at once.
	unsigned window;
	// Executions bound to this virtual GPU: how many wait in its compute unit, and how many run.
	size_t waiting, running;
	// Number of executions that the balancer keeps for this virtual GPU, and can still move to any other one.
	size_t unbound;
	bool utilization_known;
	double utilization; // used fraction of the share, 0 to 1
	bool gave, took;    // the current plan moves work or share away from this virtual GPU (gave), or to it (took)
};
static inline double balancer_executions(const struct balancer_load *load)
{
	return (double)(load->waiting + load->unbound + load->running);
}
// Returns how long new work would wait, measured in the time that one execution takes on a whole device. A share below
// 0.001 counts as 0.001.
static inline double balancer_drain(const struct balancer_load *load)
{
	return balancer_executions(load) / (load->share > 0.001 ? load->share : 0.001);
}

// A mark: what the balancer remembers about a virtual GPU between rounds.
struct balancer_mark {
	struct balancer_key key;
	double share;	     // the virtual GPU's own share, without what it has borrowed or lent
	int scaled;	     // number of compute units that the balancer added to the virtual GPU's own
	unsigned pressed;    // number of consecutive rounds with waiting work
	unsigned calm;	     // number of consecutive rounds without waiting work
	uint64_t gave, took; // the last round in which work or share left the virtual GPU, or came to it; 0: never
	unsigned needed;     // how many times the virtual GPU needed back a share that it had lent
	double credit;	     // weighted strategy: the virtual GPU with the most credit gets the next work
};
struct balancer_loan {
	struct balancer_key from, to;
	double share;
};
struct balancer_memory {
	// The marks of the virtual GPUs, in the same order as the loads of the latest snapshot.
	struct balancer_mark *marks;
	size_t count;
	struct balancer_loan *loans;
	size_t loan_count, loan_capacity;
	uint64_t round;
	struct balancer_key last; // the virtual GPU that the round-robin strategy chose last
};
// Makes one mark for each load, in the same order. If it fails with NO_MEMORY, nothing has changed.
enum vg_status balancer_update_marks(struct balancer_memory *memory, const struct balancer_load *loads, size_t count);
// Calls balancer_update_marks(), and begins a round.
enum vg_status balancer_begin_round(struct balancer_memory *memory, const struct balancer_load *loads, size_t count);
void balancer_memory_finish(struct balancer_memory *memory);
struct balancer_mark *balancer_mark(const struct balancer_memory *memory, struct balancer_key key);

enum {
	// For this many rounds, a virtual GPU that received work or share gives none away, and one that gave some away
	// receives none.
	BALANCER_HOLD = 5,
	// Shares, compute units or quanta change only after this many consecutive rounds with waiting work.
	BALANCER_PATIENCE = 2,
	// A change of shares, compute units or quanta is undone after this many consecutive rounds without waiting
	// work.
	BALANCER_CALM = 3
};
// Returns whether an action taken in `round` is too recent to be undone: less than BALANCER_HOLD rounds ago. `wrong` is
// how many earlier actions of this kind had to be undone; each of them doubles the number of rounds.
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
	size_t from, to;   // indexes of loads; equal if the decision concerns only one virtual GPU
	size_t executions; // MIGRATE: number of executions to move; PREEMPT: 1
	double share;	   // ADJUST_SHARE: how much compute share moves from `from` to `to`
	int units;	   // SCALE_UNITS: number of compute units to add, or negative: to remove
	bool returns;	   // the decision returns a lent share, or removes added compute units
	bool needed;	   // the lent share is returned because its lender needs it
	char why[BALANCER_WHY];
};
// Decides what to do about the loads. Call after balancer_begin_round() with the same loads. Changes neither the loads
// nor the memory. Returns at most `capacity` decisions, in the order in which they must be executed.
size_t balancer_decide(const struct balancer_rules *rules, const struct balancer_load *loads, size_t count,
		       const struct balancer_memory *memory, struct balancer_decision *decisions, size_t capacity);
// Records that a decision was executed.
void balancer_commit(struct balancer_memory *memory, const struct balancer_load *loads,
		     const struct balancer_decision *decision);

// The plan of one call of balancer_decide(): the decisions so far, and what they are based on. The functions below add
// decisions to the plan. `loads` is a copy of the loads, which already shows the effects of these decisions.
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
// Adds a decision to the plan. Returns NULL if the plan is full.
__attribute__((format(printf, 5, 6))) struct balancer_decision *balancer_plan_add(struct balancer_plan *plan,
										  enum vg_balancing_action action,
										  size_t from, size_t to,
										  const char *why, ...);
static inline bool balancer_allows(const struct balancer_plan *plan, enum vg_balancing_action action)
{
	return !(plan->rules->forbidden & action);
}

// Chooses the virtual GPU for new work, and records the choice. Returns -1 if no virtual GPU accepts work.
long balancer_choose(enum vg_balancing strategy, const struct balancer_load *loads, size_t count,
		     struct balancer_memory *memory);
