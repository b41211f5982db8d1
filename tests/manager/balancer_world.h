// Provides virtual GPUs with given loads for tests of the balancer's decisions, and a model in which these decisions
// are carried out.
#pragma once
#include "core/core_test.h"

#include "manager/balancer.h"

#include <math.h>

enum { WORLD = 8, ROUND = 32 };

static const struct balancer_rules usual = {.threshold = 0.2};

// Returns the load of a virtual GPU of manager 0, with the utilization unknown.
static inline struct balancer_load load_of(int id, double share, size_t waiting, size_t running)
{
	struct balancer_load load = {.key = {0, id, (uint64_t)id},
				     .takes_work = true,
				     .share = share,
				     .waiting = waiting,
				     .running = running,
				     .window = 8};

	snprintf(load.name, sizeof load.name, "vGPU %d", id);
	return load;
}

struct world {
	struct balancer_load loads[WORLD];
	size_t count;
	struct balancer_memory memory;
	struct balancer_decision decisions[ROUND];
	size_t decided;
};

static inline void carry_out(struct world *world, const struct balancer_decision *decision)
{
	struct balancer_load *from = &world->loads[decision->from], *to = &world->loads[decision->to];
	size_t unbound = decision->executions < from->unbound ? decision->executions : from->unbound;

	switch (decision->action) {
	case VG_ACTION_MIGRATE:
		from->unbound -= unbound;
		to->unbound += unbound;
		CHECK(from->waiting >= decision->executions - unbound);
		from->waiting -= decision->executions - unbound;
		to->waiting += decision->executions - unbound;
		break;
	case VG_ACTION_ADJUST_SHARE:
		from->share -= decision->share;
		to->share += decision->share;
		break;
	case VG_ACTION_SCALE_UNITS:
		to->units = (unsigned)((int)to->units + decision->units);
		to->share += (double)decision->units / to->max_units;
		break;
	default:
		break;
	}
	balancer_commit(&world->memory, world->loads, decision);
}

// Runs one round: lets the balancer decide, and carries the decisions out in the model.
static inline size_t play(struct world *world, const struct balancer_rules *rules)
{
	OK(balancer_begin_round(&world->memory, world->loads, world->count));
	world->decided = balancer_decide(rules, world->loads, world->count, &world->memory, world->decisions, ROUND);
	for (size_t i = 0; i < world->decided; i++)
		carry_out(world, &world->decisions[i]);
	double sum[WORLD] = {0};
	for (size_t i = 0; i < world->count; i++) {
		sum[world->loads[i].key.manager] += world->loads[i].share;
		CHECK(world->loads[i].share > 0);
	}
	for (size_t i = 0; i < WORLD; i++)
		CHECK(sum[i] <= 1 + 1e-9);
	return world->decided;
}

static inline void end_world(struct world *world)
{
	balancer_memory_finish(&world->memory);
}
