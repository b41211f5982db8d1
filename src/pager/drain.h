// Waits for the GPU before memory moves. The pager's thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "pager/driver.h"

// The pauses of a loop that waits: each is twice as long as the one before, between these.
enum { PAGER_POLL_LEAST_NS = 20000, PAGER_POLL_MOST_NS = 1000000 };

void pager_sleep(long ns);
// Returns twice the pause, and `most_ns` at most.
long pager_longer(long pause_ns, long most_ns);
// Waits until the GPU has done all work of the contexts, at most until the deadline (CLOCK_MONOTONIC): then it returns
// CUDA_ERROR_NOT_READY. Otherwise CUDA_SUCCESS, or the driver's error.
CUresult pager_drain(const CUcontext *contexts, size_t count, uint64_t deadline_ns);
