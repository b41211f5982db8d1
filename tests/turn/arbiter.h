// Runs an arbiter step by step, to check single decisions. The test sets what the arbiter knows about its vGPUs (the
// facts), and reads what the arbiter decides (the orders).
#pragma once
#include "test.h"

#include "turn/turn.h"

#define US 1000ull
#define MS 1000000ull
#define SEC 1000000000ull

static struct turn_arbiter *arbiter;
static struct turn_facts facts[TURN_VGPUS];
static struct turn_orders orders;
static struct turn_rules rules;

static inline void create_arbiter(enum turn_mode mode)
{
	turn_rules(mode, &rules);
	CHECK_INT(turn_create(&rules, SEC, 0, &arbiter), 0);
	memset(facts, 0, sizeof facts);
}

static inline unsigned int add_vgpu(unsigned int share, bool is_limit, bool is_latency)
{
	unsigned int index;

	CHECK_INT(turn_join(arbiter, &(struct turn_terms){share, is_limit, is_latency}, SEC, &index), 0);
	return index;
}

static inline unsigned int get_state(unsigned int vgpu)
{
	return turn_word_state(orders.gates[vgpu].word);
}

static inline void set_waiting(unsigned int vgpu, uint64_t now)
{
	facts[vgpu] = (struct turn_facts){.waiting = 1, .alive_ns = now, .launches = facts[vgpu].launches};
}

static inline void add_launch(unsigned int vgpu, uint64_t now, uint64_t ns)
{
	facts[vgpu] = (struct turn_facts){
		.in_flight = 1, .began_ns = now, .eta_ns = now + ns, .launches = facts[vgpu].launches + 1};
}

static inline void set_idle(unsigned int vgpu, uint64_t now)
{
	facts[vgpu].in_flight = facts[vgpu].waiting = 0;
	facts[vgpu].eta_ns = 0;
	facts[vgpu].idle_ns = now;
}

// Starts two vGPUs. The first one has had the turn since `now`, with work in flight; the second one waits.
static inline void begin_pair(struct turn_terms first, struct turn_terms second, uint64_t now)
{
	unsigned int index;

	create_arbiter(TURN_MODE_TIME);
	CHECK_INT(turn_join(arbiter, &first, SEC, &index), 0);
	CHECK_INT(turn_join(arbiter, &second, SEC, &index), 0);
	set_waiting(0, now);
	turn_decide(arbiter, facts, now, &orders);
	CHECK_INT(orders.holder, 0);
	add_launch(0, now, MS);
	set_waiting(1, now);
	turn_decide(arbiter, facts, now + 10 * US, &orders);
	CHECK_INT(orders.holder, 0);
}

// Lets the arbiter decide when the first vGPU's turn ends, and again if the arbiter prolongs the turn. Returns when the
// turn ended.
static inline uint64_t end_first_turn(void)
{
	uint64_t until;

	do {
		until = orders.gates[0].until_ns;
		turn_decide(arbiter, facts, until, &orders);
	} while (get_state(0) == TURN_HELD);
	return until;
}
