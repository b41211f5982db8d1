#include "turn/estimate.h"

enum { TAG_SHIFT = 44, UNIT_SHIFT = 4, COUNT_BITS = 6, LEARN = 4, GROWTH = 4, SOON = 3 };
#define LONG_UNITS (100000ull >> UNIT_SHIFT)
#define UNITS_MOST ((1ull << (TAG_SHIFT - COUNT_BITS)) - 1) // 73 minutes

static bool has_tag(uint64_t entry, uint64_t shape)
{
	return entry && entry >> TAG_SHIFT == shape >> TAG_SHIFT;
}

// Returns the entry of the shape, or where it belongs: a free entry of its set, or one that the shape itself selects.
static _Atomic uint64_t *find_entry(struct turn_estimates *estimates, uint64_t shape)
{
	_Atomic uint64_t *set = estimates->shapes[shape >> 32 & (TURN_SETS - 1)];
	unsigned int first = shape >> 40 & (TURN_WAYS - 1), way = first;

	do {
		uint64_t entry = atomic_load_explicit(&set[way], memory_order_relaxed);
		if (!entry || has_tag(entry, shape))
			return &set[way];
		way = (way + 1) % TURN_WAYS;
	} while (way != first);
	return &set[first];
}

static uint64_t units_of(uint64_t entry)
{
	return entry >> COUNT_BITS & UNITS_MOST;
}

static uint64_t count_of(uint64_t entry)
{
	return entry % (1u << COUNT_BITS);
}

uint64_t turn_estimate(struct turn_estimates *estimates, uint64_t shape, uint64_t unknown_ns, bool *ret_sample)
{
	_Atomic uint64_t *place = find_entry(estimates, shape);
	uint64_t entry = atomic_load_explicit(place, memory_order_relaxed), count = count_of(entry) + 1;

	*ret_sample = true;
	if (!has_tag(entry, shape))
		return unknown_ns;
	if (count == TURN_SAMPLE)
		count = 0;
	*ret_sample = !count;
	atomic_store_explicit(place, entry - count_of(entry) + count, memory_order_relaxed);
	return units_of(entry) << UNIT_SHIFT;
}

// The first launch of a kernel may load its code, and then takes much longer. Short kernels are not measured more often,
// because that costs their program too much.
static bool is_unsettled(uint64_t old, uint64_t measured)
{
	uint64_t difference = measured > old ? measured - old : old - measured;

	return (old ? old : measured) >= LONG_UNITS && difference > old / 8;
}

void turn_estimate_learn(struct turn_estimates *estimates, uint64_t shape, uint64_t measured_ns)
{
	_Atomic uint64_t *place = find_entry(estimates, shape);
	uint64_t entry = atomic_load_explicit(place, memory_order_relaxed);
	uint64_t units = measured_ns >> UNIT_SHIFT, count = 0;

	units = !units ? 1 : units > UNITS_MOST ? UNITS_MOST : units;
	uint64_t old = has_tag(entry, shape) ? units_of(entry) : 0;
	if (is_unsettled(old, units))
		count = TURN_SAMPLE - SOON;
	else if (old)
		count = count_of(entry);
	if (old) {
		units = units > old * GROWTH ? old * GROWTH : units;
		units = units > old ? old + (units - old + LEARN - 1) / LEARN : old - (old - units + LEARN - 1) / LEARN;
	}
	entry = shape >> TAG_SHIFT << TAG_SHIFT | units << COUNT_BITS | count;
	atomic_store_explicit(place, entry, memory_order_relaxed);
}
