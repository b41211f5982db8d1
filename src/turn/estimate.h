// Estimates how long a launch takes on the GPU, from how long earlier launches of the same shape (kernel and number of
// blocks) took. The table has a fixed size and is in the process: no lock, no allocation. Any thread may call these
// functions; launches that race lose at most one measurement. A table of zeroes is empty.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// One launch in TURN_SAMPLE is measured. TURN_SAMPLE is a prime, so in a program that repeats a sequence of launches,
// each launch of the sequence is measured now and then.
enum { TURN_SETS = 128, TURN_WAYS = 8, TURN_SAMPLE = 61 };

// The table of estimates. Each shape belongs to one set, and may be in any entry of that set. A set is a cache line. A
// program may use hundreds of shapes, so the table is large. If the entry of a shape was overwritten, the shape is
// unknown until one of its launches is measured again.
struct turn_estimates {
	_Alignas(64) _Atomic uint64_t shapes[TURN_SETS][TURN_WAYS];
};

// The bits of an entry, from the highest one: 20 bits of the shape, 37 bits for the estimate in units of 16 ns, 1 bit
// that estimate.c explains, and 6 bits that count the launches up to the next measurement.
enum { TURN_TAG_SHIFT = 44, TURN_UNITS_SHIFT = 7, TURN_UNIT_SHIFT = 4, TURN_COUNT_BITS = 6 };
#define TURN_UNITS_MOST ((1ull << (TURN_TAG_SHIFT - TURN_UNITS_SHIFT)) - 1) // the largest estimate: 36 minutes

static inline bool turn_entry_is_of(uint64_t entry, uint64_t shape)
{
	return entry && entry >> TURN_TAG_SHIFT == shape >> TURN_TAG_SHIFT;
}
static inline uint64_t turn_entry_ns(uint64_t entry)
{
	return (entry >> TURN_UNITS_SHIFT & TURN_UNITS_MOST) << TURN_UNIT_SHIFT;
}
static inline unsigned int turn_entry_count(uint64_t entry)
{
	return entry & ((1u << TURN_COUNT_BITS) - 1);
}

// Returns the entry of the shape. If the shape has no entry, returns a free one of its set. If the set is full, returns
// the entry that bits of the shape select; the caller may overwrite it.
static inline _Atomic uint64_t *turn_find_entry(struct turn_estimates *estimates, uint64_t shape)
{
	_Atomic uint64_t *set = estimates->shapes[shape >> 32 & (TURN_SETS - 1)];
	unsigned int first = shape >> 40 & (TURN_WAYS - 1), way = first;

	do {
		uint64_t entry = atomic_load_explicit(&set[way], memory_order_relaxed);
		if (!entry || turn_entry_is_of(entry, shape))
			return &set[way];
		way = (way + 1) % TURN_WAYS;
	} while (way != first);
	return &set[first];
}

// Returns the shape of a launch: a hash of the function or executable graph, and of the number of blocks.
static inline uint64_t turn_shape(const void *function, uint64_t blocks)
{
	return ((uint64_t)(uintptr_t)function ^ blocks * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
}
// Returns the estimate in nanoseconds, or `unknown_ns` if the table has no entry for the shape. Pass the window (the
// most work that may be in flight) as `unknown_ns`. A launch of unknown length then fills the window, and the next
// launch waits. If *ret_sample is true, the caller records a timed event before and after this launch, and calls
// turn_estimate_learn(). It is true for all launches of a shape until one is measured, and then for one in TURN_SAMPLE.
uint64_t turn_estimate(struct turn_estimates *estimates, uint64_t shape, uint64_t unknown_ns, bool *ret_sample);
// Does the same for a launch whose estimate is at most `most_ns`, if it is not to be measured: adds the estimate
// to *sum_ns and returns true. Otherwise returns false, and changes nothing.
static inline bool turn_estimate_add(struct turn_estimates *estimates, uint64_t shape, uint64_t most_ns,
				     uint64_t *sum_ns)
{
	_Atomic uint64_t *slot = turn_find_entry(estimates, shape);
	uint64_t entry = atomic_load_explicit(slot, memory_order_relaxed), ns = turn_entry_ns(entry);

	if (!turn_entry_is_of(entry, shape) || ns > most_ns || turn_entry_count(entry) + 1 == TURN_SAMPLE)
		return false;
	atomic_store_explicit(slot, entry + 1, memory_order_relaxed);
	*sum_ns += ns;
	return true;
}
// Updates the estimate of the shape from the measurement `measured_ns`. The estimate changes by a quarter of the
// difference. A measurement counts as at most four times the estimate, unless the one before was also too long: another
// process may have interrupted the launch. Launches of 0.1 ms and more are measured again soon if the difference is
// large.
void turn_estimate_learn(struct turn_estimates *estimates, uint64_t shape, uint64_t measured_ns);
