// Measures how much of the time evictable vGPUs of one device spend moving memory. Main thread only.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum {
	THRASH_WINDOW_S = 60,
	THRASH_MOST_PERCENT = 20, // more is reported
};

struct thrash {
	uint64_t since_ns, seen_ns; // start of the present window; the last call. 0: no window has begun
	uint64_t moving_ns;	    // time in the window in which memory moved
	bool is_moving;		    // at the last call
};

// Notes whether memory moves at `now`. Returns how many percent of the last window memory moved, if a window has ended
// and this is more than THRASH_MOST_PERCENT; else 0.
unsigned int thrash_note(struct thrash *thrash, bool is_moving, uint64_t now);
