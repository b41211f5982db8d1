#include "turn/estimate.h"

enum { TAG_SHIFT = 44, UNIT_SHIFT = 4, COUNT_BITS = 6, LEARN = 4, GROWTH = 4, SOON = 5 };
// A bit of an entry, set if the last measurement was more than GROWTH times the estimate. If the bit was clear before,
// that measurement counted as only GROWTH times the estimate. If the bit was set already, it counted in full.
#define CAPPED (1ull << COUNT_BITS)
#define UNITS_SHIFT (COUNT_BITS + 1)
#define LONG_UNITS (100000ull >> UNIT_SHIFT)
#define UNITS_MOST ((1ull << (TAG_SHIFT - UNITS_SHIFT)) - 1) // the largest estimate, in units of 16 ns: 36 minutes

static bool has_tag(uint64_t entry, uint64_t shape)
{
	return entry && entry >> TAG_SHIFT == shape >> TAG_SHIFT;
}

// Returns the entry of the shape. If the shape has no entry, returns a free one of its set. If the set is full, returns
// the entry that bits of the shape select; the caller may overwrite it.
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

static uint64_t get_units(uint64_t entry)
{
	return entry >> UNITS_SHIFT & UNITS_MOST;
}

static uint64_t get_count(uint64_t entry)
{
	return entry % (1u << COUNT_BITS);
}

uint64_t turn_estimate(struct turn_estimates *estimates, uint64_t shape, uint64_t unknown_ns, bool *ret_sample)
{
	_Atomic uint64_t *slot = find_entry(estimates, shape);
	uint64_t entry = atomic_load_explicit(slot, memory_order_relaxed), count = get_count(entry) + 1;

	*ret_sample = true;
	if (!has_tag(entry, shape))
		return unknown_ns;
	if (count == TURN_SAMPLE)
		count = 0;
	*ret_sample = !count;
	atomic_store_explicit(slot, entry - get_count(entry) + count, memory_order_relaxed);
	return get_units(entry) << UNIT_SHIFT;
}

// Returns whether to measure the shape again soon, because the estimate differs much from the measurement. A kernel's
// first launch can be such a case: it may take much longer, because it may load the code. Short kernels are not
// measured more often, because measuring costs their program too much.
static bool is_far_off(uint64_t old, uint64_t measured)
{
	uint64_t difference = measured > old ? measured - old : old - measured;

	return (old > measured ? old : measured) >= LONG_UNITS && difference > old / 8;
}

void turn_estimate_learn(struct turn_estimates *estimates, uint64_t shape, uint64_t measured_ns)
{
	_Atomic uint64_t *slot = find_entry(estimates, shape);
	uint64_t entry = atomic_load_explicit(slot, memory_order_relaxed);
	uint64_t old = has_tag(entry, shape) ? get_units(entry) : 0, count = old ? get_count(entry) : 0;
	uint64_t measured = measured_ns >> UNIT_SHIFT, units;
	bool is_large;

	measured = !measured ? 1 : measured > UNITS_MOST ? UNITS_MOST : measured;
	if (is_far_off(old, measured))
		count = TURN_SAMPLE - SOON;
	is_large = old && measured > old * GROWTH;
	if (is_large && !(entry & CAPPED))
		measured = old * GROWTH;
	units = !old		 ? measured
		: measured > old ? old + (measured - old + LEARN - 1) / LEARN
				 : old - (old - measured + LEARN - 1) / LEARN;
	entry = shape >> TAG_SHIFT << TAG_SHIFT | units << UNITS_SHIFT | (is_large ? CAPPED : 0) | count;
	atomic_store_explicit(slot, entry, memory_order_relaxed);
}
