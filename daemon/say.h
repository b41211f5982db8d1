// Writes log lines to standard error, with time and pid. Users can cause log lines, so each place in the source writes
// at most 20 in a minute. The next minute begins with a line that says how many were omitted. Main thread only.
#pragma once
#include <stdint.h>

struct say_kind {
	struct say_kind *next;
	uint64_t since_ns; // start of the minute in which lines are counted; 0: nothing was written yet
	unsigned int said, left_out;
	char last[120]; // the last line that was omitted
};
#define say(...)                                   \
	do {                                       \
		static struct say_kind say_kind_;  \
		say_line(&say_kind_, __VA_ARGS__); \
	} while (0)
__attribute__((format(printf, 2, 3))) void say_line(struct say_kind *kind, const char *format, ...);
// Reports the lines that were omitted in minutes that ended before `now`; if `now` is UINT64_MAX, in all minutes.
// Lowers *deadline to the time at which the next minute with omitted lines ends.
void say_left_out(uint64_t now, uint64_t *deadline);
