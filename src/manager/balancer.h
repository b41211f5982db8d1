// The balancer from inside. What it decides is a function of a snapshot of loads and of what it remembers; reading the
// loads and acting on them is balancer_source.c alone.
#pragma once
#include "base/status.h"
#include "virgate/balancer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BALANCER_NAME = 64, BALANCER_WHY = 256 };

// Which virtual GPU: ids are of a manager, and may be given again; serials never.
struct balancer_key {
	unsigned manager; // as they were added, from 0 on
	int id;
	uint64_t serial;
};
static inline bool balancer_same(struct balancer_key a, struct balancer_key b)
{
	return a.manager == b.manager && a.id == b.id && a.serial == b.serial;
}

// One virtual GPU at one time.
struct balancer_load {
	struct balancer_key key;
	char name[BALANCER_NAME];
	enum vg_virtual_gpu_status status;
	bool takes_work;	   // it is neither paused nor in error
	double share;		   // of its device
	unsigned units, max_units; // virtual compute units: its own, its device's; 0: not counted in units
	int priority;		   // the highest of what waits or runs
	unsigned window;	   // executions that it can have running at once
	size_t waiting, running;   // bound: its arguments are addresses of this virtual GPU
	size_t unbound;		   // the balancer's own, that wait for it and can go anywhere
	bool utilization_known;
	double utilization; // of its share, 0 to 1
	bool gave, took;    // within a plan: in this round
};
static inline double balancer_executions(const struct balancer_load *load)
{
	return (double)(load->waiting + load->unbound + load->running);
}
// How long new work would wait, in executions of a whole device; a share of nothing is next to nothing.
static inline double balancer_drain(const struct balancer_load *load)
{
	return balancer_executions(load) / (load->share > 0.001 ? load->share : 0.001);
}

// What it remembers of a virtual GPU from round to round.
struct balancer_mark {
	struct balancer_key key;
	double share;	     // its own, without what is lent
	int scaled;	     // units that it has beyond its own
	unsigned pressed;    // rounds on end in which work waited
	unsigned calm;	     // and in which none did
	uint64_t gave, took; // the last round in which work, or its own share, left it or came; 0: never
	unsigned needed;     // how often it had to have back what it had lent
	double credit;	     // of the weighted strategy
};
struct balancer_loan {
	struct balancer_key from, to;
	double share;
};
struct balancer_memory {
	struct balancer_mark *marks; // in the order of the loads that were observed last
	size_t count;
	struct balancer_loan *loans;
	size_t loan_count, loan_capacity;
	uint64_t round;
	struct balancer_key last; // that round robin chose
};
// Its marks are then those of the loads, in their order. NO_MEMORY: nothing has changed.
enum vg_status balancer_meet(struct balancer_memory *memory, const struct balancer_load *loads, size_t count);
// Likewise, and begins a round.
enum vg_status balancer_observe(struct balancer_memory *memory, const struct balancer_load *loads, size_t count);
void balancer_memory_finish(struct balancer_memory *memory);
struct balancer_mark *balancer_mark(const struct balancer_memory *memory, struct balancer_key key);

enum {
	BALANCER_HOLD = 5,     // rounds in which who took something gives nothing, and the other way round
	BALANCER_PATIENCE = 2, // rounds on end that work waits before shares, units or quanta change for it
	BALANCER_CALM = 3      // rounds on end without work that waits before they change back
};
// Whether `round` is so near that what was done then stands; twice as long for each time that it proved wrong.
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
	size_t from, to;   // of the loads; of one virtual GPU alone: the same
	size_t executions; // MIGRATE: that move; PREEMPT: 1
	double share;	   // ADJUST_SHARE: that goes from one to the other
	int units;	   // SCALE_UNITS: more, or fewer
	bool returns;	   // what was lent or added goes back,
	bool needed;	   // because it is needed there
	char why[BALANCER_WHY];
};
// After balancer_observe() of the same loads. Changes neither; at most `capacity` decisions, in the order in which they
// are to be carried out.
size_t balancer_decide(const struct balancer_rules *rules, const struct balancer_load *loads, size_t count,
		       const struct balancer_memory *memory, struct balancer_decision *decisions, size_t capacity);
// A decision has been carried out.
void balancer_commit(struct balancer_memory *memory, const struct balancer_load *loads,
		     const struct balancer_decision *decision);

// Parts of balancer_decide(); `loads` are its own copy, in which what was decided is done already.
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
// NULL: there is no more room.
__attribute__((format(printf, 5, 6))) struct balancer_decision *balancer_plan_add(struct balancer_plan *plan,
										  enum vg_balancing_action action,
										  size_t from, size_t to,
										  const char *why, ...);
static inline bool balancer_allows(const struct balancer_plan *plan, enum vg_balancing_action action)
{
	return !(plan->rules->forbidden & action);
}

// The virtual GPU that new work goes to; -1: none takes work. Notes the choice.
long balancer_place(enum vg_balancing strategy, const struct balancer_load *loads, size_t count,
		    struct balancer_memory *memory);
