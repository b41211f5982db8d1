// Sleeps until a word of memory changes. Any thread.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// On the monotonic clock. UINT64_MAX, for 0 seconds or less: no limit.
uint64_t compute_deadline(double seconds);
// Waits while *word is `value`. Returns false at the deadline.
bool compute_wait(const atomic_uint *word, unsigned value, uint64_t until_ns);
void compute_wake(const atomic_uint *word); // wakes all waiting threads
