// Log lines on standard error, with time and process number. Any user can cause log lines, so each place in the source
// writes at most 20 in a minute; the next minute begins with a line that counts the omitted ones. Main thread only.
#pragma once
#include <stdint.h>

struct say_kind {
	struct say_kind *next;
	uint64_t since_ns; // start of its minute; 0: nothing was written yet
	unsigned int said, left_out;
	char last[120]; // of the omitted lines
};
#define say(...)                                                                                   \
	do {                                                                                       \
		static struct say_kind say_kind_;                                                  \
		say_line(&say_kind_, __VA_ARGS__);                                                 \
	} while (0)
__attribute__((format(printf, 2, 3))) void say_line(struct say_kind *kind, const char *format, ...);
// Reports the lines omitted in minutes that are over. Lowers *deadline to the end of the next such minute. UINT64_MAX:
// reports all.
void say_left_out(uint64_t now, uint64_t *deadline);
