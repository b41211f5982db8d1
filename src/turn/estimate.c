#include "turn/estimate.h"

enum { LEARN = 4, GROWTH = 4, SOON = 5 };
// A bit of an entry, set if the last measurement was more than GROWTH times the estimate. If the bit was clear before,
// that measurement counted as only GROWTH times the estimate. If the bit was set already, it counted in full.
#define CAPPED (1ull << TURN_COUNT_BITS)
#define LONG_UNITS (100000ull >> TURN_UNIT_SHIFT)

uint64_t turn_estimate(struct turn_estimates *estimates, uint64_t shape, uint64_t unknown_ns, bool *ret_sample)
{
	_Atomic uint64_t *slot = turn_find_entry(estimates, shape);
	uint64_t entry = atomic_load_explicit(slot, memory_order_relaxed);
	unsigned int count = turn_entry_count(entry) + 1;

	*ret_sample = true;
	if (!turn_entry_is_of(entry, shape))
		return unknown_ns;
	if (count == TURN_SAMPLE)
		count = 0;
	*ret_sample = !count;
	atomic_store_explicit(slot, entry - turn_entry_count(entry) + count, memory_order_relaxed);
	return turn_entry_ns(entry);
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
	_Atomic uint64_t *slot = turn_find_entry(estimates, shape);
	uint64_t entry = atomic_load_explicit(slot, memory_order_relaxed);
	uint64_t old = turn_entry_is_of(entry, shape) ? turn_entry_ns(entry) >> TURN_UNIT_SHIFT : 0;
	unsigned int count = old ? turn_entry_count(entry) : 0;
	uint64_t measured = measured_ns >> TURN_UNIT_SHIFT, units;
	bool is_large;

	measured = !measured ? 1 : measured > TURN_UNITS_MOST ? TURN_UNITS_MOST : measured;
	if (is_far_off(old, measured))
		count = TURN_SAMPLE - SOON;
	is_large = old && measured > old * GROWTH;
	if (is_large && !(entry & CAPPED))
		measured = old * GROWTH;
	units = !old		 ? measured
		: measured > old ? old + (measured - old + LEARN - 1) / LEARN
				 : old - (old - measured + LEARN - 1) / LEARN;
	entry = shape >> TURN_TAG_SHIFT << TURN_TAG_SHIFT | units << TURN_UNITS_SHIFT | (is_large ? CAPPED : 0) | count;
	atomic_store_explicit(slot, entry, memory_order_relaxed);
}
