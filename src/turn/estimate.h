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
	// The bits of an entry, from the highest one: 20 bits of the shape, 37 bits for the estimate in units of 16 ns,
	// 1 bit CAPPED, and 6 bits that count the launches up to the next measurement.
	_Alignas(64) _Atomic uint64_t shapes[TURN_SETS][TURN_WAYS];
};

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
// Updates the estimate of the shape from the measurement `measured_ns`. The estimate changes by a quarter of the
// difference. A measurement counts as at most four times the estimate, unless the one before was also too long: another
// process may have interrupted the launch. Launches of 0.1 ms and more are measured again soon if the difference is
// large.
void turn_estimate_learn(struct turn_estimates *estimates, uint64_t shape, uint64_t measured_ns);
