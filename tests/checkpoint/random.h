// Generates pseudorandom numbers (xorshift64), the same in each run. Include in exactly one file per program. One
// thread.
#pragma once
#include <stdint.h>

static uint64_t random_state = 88172645463325252u;

static inline uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}
