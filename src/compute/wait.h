// Sleeping on a word of memory until somebody changes it. Any thread.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// On the monotonic clock; UINT64_MAX: never, as for 0 seconds or less.
uint64_t compute_deadline(double seconds);
// While *word is `value`, and nobody wakes it. False: the time has come.
bool compute_wait(const atomic_uint *word, unsigned value, uint64_t until_ns);
void compute_wake(const atomic_uint *word); // all who sleep on it
