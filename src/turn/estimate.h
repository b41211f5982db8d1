// How long a launch takes on the GPU, from how long launches of the same shape took. A table of fixed size in the
// process: no lock, no allocation. Any thread; launches that race lose a sample at most. All zeroes is an empty table.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// TURN_SAMPLE is a prime: in a program that repeats a sequence of launches, each of them is measured at times.
enum { TURN_SETS = 128, TURN_WAYS = 8, TURN_SAMPLE = 61 };

// A shape is in one of the entries of its set. A set is a cache line. A program may use hundreds of shapes. If
// one replaced another in the table, both would wait longer, because an unknown shape counts as much work.
struct turn_estimates {
	// {tag:20, estimate in units of 16 ns:37, capped:1, launches since the last sample:6}
	_Alignas(64) _Atomic uint64_t shapes[TURN_SETS][TURN_WAYS];
};

// The shape of a launch: the function or executable graph, and the number of its blocks.
static inline uint64_t turn_shape(const void *function, uint64_t blocks)
{
	return ((uint64_t)(uintptr_t)function ^ blocks * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
}
// Returns nanoseconds; `unknown_ns` for a shape that was never measured: pass the window, so that nothing else is
// launched with it. *ret_sample: measure this launch, with a timed event on each side of it, and call
// turn_estimate_learn(). That is the first launch of a shape, each until one is measured, and then one in TURN_SAMPLE.
uint64_t turn_estimate(struct turn_estimates *estimates, uint64_t shape, uint64_t unknown_ns, bool *ret_sample);
// A launch of the shape took `measured_ns`. The estimate follows by a quarter of the difference. A launch that was
// interrupted by another process would count too much: the first of several long samples counts as at most four times
// the estimate. Launches of 0.1 ms and more are measured again soon if the difference is large.
void turn_estimate_learn(struct turn_estimates *estimates, uint64_t shape, uint64_t measured_ns);
