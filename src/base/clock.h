// Reads clocks in nanoseconds. Any thread.
#pragma once
#include <stdint.h>

uint64_t vg_clock_monotonic_ns(void);
uint64_t vg_clock_realtime_ns(void);
