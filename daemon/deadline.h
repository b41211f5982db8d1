// Combines deadlines of the loop: times of CLOCK_MONOTONIC in nanoseconds, or 0 for none. Any thread.
#pragma once
#include <stdint.h>

static inline void deadline_lower(uint64_t *deadline, uint64_t other)
{
	if (other && (!*deadline || other < *deadline))
		*deadline = other;
}
