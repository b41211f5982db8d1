// Estimates how long a launch takes on the GPU, from how long launches of the same shape took. The table has a fixed
// size and is in the process: no lock, no allocation. Any thread; launches that race lose at most one sample. A table
// of zeroes is empty.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// TURN_SAMPLE is a prime. So in a program that repeats a sequence of launches, each launch of the sequence is measured
// now and then.
enum { TURN_SETS = 128, TURN_WAYS = 8, TURN_SAMPLE = 61 };

// Each shape belongs to one set, and may be in any entry of the set. A set is a cache line. The table is large because
// a program may use hundreds of shapes: a shape that was replaced is unknown, and counts as much work.
struct turn_estimates {
	// Each entry has the bits {tag:20, estimate in units of 16 ns:37, capped:1, launches since the last sample:6}.
	_Alignas(64) _Atomic uint64_t shapes[TURN_SETS][TURN_WAYS];
};

// Returns the shape of a launch: a hash of the function or executable graph, and of the number of blocks.
static inline uint64_t turn_shape(const void *function, uint64_t blocks)
{
	return ((uint64_t)(uintptr_t)function ^ blocks * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
}
// Returns the estimate in nanoseconds, or `unknown_ns` if the shape was never measured. Pass the window as
// `unknown_ns`, so that nothing else is launched beside an unknown shape. *ret_sample: measure this launch with a timed
// event before and after it, and call turn_estimate_learn(). It is set for all launches of a shape until one is
// measured, and then for one in TURN_SAMPLE.
uint64_t turn_estimate(struct turn_estimates *estimates, uint64_t shape, uint64_t unknown_ns, bool *ret_sample);
// Adds the measurement `measured_ns` to the estimate of the shape. The estimate changes by a quarter of the difference.
// A launch that another process interrupted must not count too much: the first of several long samples counts as at
// most four times the estimate. Launches of 0.1 ms and more are measured again soon if the difference is large.
void turn_estimate_learn(struct turn_estimates *estimates, uint64_t shape, uint64_t measured_ns);
