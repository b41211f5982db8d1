// Lets a thread sleep until a word of memory changes. Any thread.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// Returns the deadline on the monotonic clock. Returns UINT64_MAX (no limit) for 0 seconds or less.
uint64_t compute_deadline(double seconds);
// Waits while *word is `value`. Returns false at the deadline.
bool compute_wait(const atomic_uint *word, unsigned value, uint64_t until_ns);
void compute_wake(const atomic_uint *word); // wakes all waiting threads
