// Waits for the GPU before memory moves. For the pager's thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

// The shortest and the longest pause of a loop that waits. Each pause is twice as long as the one before.
enum { PAGER_POLL_LEAST_NS = 20000, PAGER_POLL_MOST_NS = 1000000 };

void pager_sleep(long ns);
// Returns twice the pause, but at most `most_ns`.
long pager_longer(long pause_ns, long most_ns);
// Waits until the GPU has done all work of the contexts. Returns CUDA_SUCCESS, the driver's error, or
// CUDA_ERROR_NOT_READY if the work has not ended by the deadline (CLOCK_MONOTONIC).
CUresult pager_drain(const CUcontext *contexts, size_t count, uint64_t deadline_ns);
